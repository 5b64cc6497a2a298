/* The phases of a session in which Lua runs. */
#include "stream/modules/lua/lua.h"

/* Codes of ngx.exit, as scripts know them. */
enum { EXIT_OK = 0, EXIT_DECLINED = -5 };

#define CLIENT_LEFT 499 /* the status of a session that its client broke off */

/* Runs the code of a phase. */
static enum script_end stream_lua_phases_run(struct stream_lua *lua, enum script_phase phase,
                                             const struct script_code *code)
{
    struct script_call call = {.subject = &lua->subject, .phase = phase, .code = code};

    lua->has_exit = false;
    return script_run(&call);
}

/* The status that a code of ngx.exit, or a failure, comes to. */
static unsigned status_of(const struct stream_lua *lua, enum script_end end)
{
    if (end == SCRIPT_FAILED) {
        return SESSION_INTERNAL_ERROR;
    }
    if (end == SCRIPT_CANCELLED && lua->has_left) {
        return CLIENT_LEFT;
    }
    if (end != SCRIPT_LEFT || !lua->has_exit || lua->exit_code == 0) {
        return SESSION_OK;
    }
    return lua->exit_code < 0 || lua->exit_code > 999 ? SESSION_INTERNAL_ERROR
                                                      : (unsigned) lua->exit_code;
}

/* The session ends when its client has taken what Lua has said. */
static enum session_step end_session(struct stream_lua *lua, unsigned status)
{
    struct session *session = lua->session;

    session->status = (uint16_t) status;
    return lua->has_failed ? SESSION_ENDED
                           : session_end_sent(session, lua->subject.settings->send_timeout_ms);
}

enum session_step stream_lua_preread(struct session *session)
{
    struct stream_lua *lua = stream_lua_of(session);

    session_hold_input(session);
    stream_lua_begin_input(lua);
    enum script_end end =
        stream_lua_phases_run(lua, SCRIPT_PREREAD, stream_lua_settings_of(session)->preread);
    stream_lua_end_input(lua);
    session_release_input(session);
    bool goes_on =
        end == SCRIPT_ENDED || (end == SCRIPT_LEFT && lua->has_exit &&
                                (lua->exit_code == EXIT_OK || lua->exit_code == EXIT_DECLINED));
    return goes_on ? SESSION_NEXT : end_session(lua, status_of(lua, end));
}

enum session_step stream_lua_content(struct session *session)
{
    struct stream_lua *lua = stream_lua_of(session);

    stream_lua_begin_input(lua);
    enum script_end end =
        stream_lua_phases_run(lua, SCRIPT_CONTENT, stream_lua_settings_of(session)->content);
    stream_lua_end_input(lua);

    return end_session(lua, status_of(lua, end));
}

enum session_step stream_lua_log(struct session *session)
{
    struct stream_lua *lua = stream_lua_of(session);

    stream_lua_phases_run(lua, SCRIPT_LOG, stream_lua_settings_of(session)->log);
    return SESSION_NEXT;
}
