/* ngx.req.socket of UDP: the datagrams of a session's client. */
#include "base/clock.h"
#include "stream/modules/lua/lua.h"

#define PHASES (SCRIPT_PREREAD | SCRIPT_CONTENT)
#define DATAGRAM_MOST 65507 /* bytes of one over IPv4 */

/* The session of the socket at index 1, which is that of the thread; an error is thrown else. */
static struct session *stream_lua_datagrams_check(lua_State *L, struct script_thread *thread)
{
    struct stream_lua *lua = stream_lua_check(L, thread);

    luaL_checktype(L, 1, LUA_TTABLE);
    lua_rawgeti(L, 1, 1);
    if (lua_touserdata(L, -1) != lua) {
        luaL_error(L, "bad request");
    }
    lua_pop(L, 1);
    return lua->session;
}

/* A whole datagram, or as much of it as is asked for; the rest of it is gone, as of recv(2). */
static int receive_one(lua_State *L, struct script_thread *thread)
{
    struct session *session = stream_lua_datagrams_check(L, thread);
    const struct script_settings *settings = thread->subject->settings;
    lua_Number size = luaL_optnumber(L, 2, DATAGRAM_MOST);

    if (session_is_awaited(session)) {
        return script_fail(L, "socket busy reading");
    }
    lua_rawgeti(L, 1, 2);
    uint64_t timeout_ms =
        lua_isnumber(L, -1) ? (uint64_t) lua_tonumber(L, -1) : settings->read_timeout_ms;
    switch (session_wait_datagram(session, clock_now.now_ms + timeout_ms)) {
    case WAIT_READY:
        break;
    case WAIT_TIMED_OUT:
        if (settings->log_errors) {
            log_error(&session->log, 0, "stream lua udp socket read timed out");
        }
        return script_fail(L, "timeout");
    case WAIT_CANCELLED:
        return 0;
    }
    struct str datagram = session_input(session);
    script_push_str(L, str_head(datagram,
                                size >= 1 && size < DATAGRAM_MOST ? (size_t) size : DATAGRAM_MOST));
    session_drop_datagram(session);
    return 1;
}

static int send_one(lua_State *L, struct script_thread *thread)
{
    struct session *session = stream_lua_datagrams_check(L, thread);
    struct str datagram = script_check_str(L, 2);

    if (session->flow == NULL) {
        return script_fail(L, "closed");
    }
    if (datagram.len > DATAGRAM_MOST) {
        return script_fail(L, "message too long");
    }
    session_send_datagram(session, datagram);
    lua_pushinteger(L, 1);
    return 1;
}

static int settimeout(lua_State *L, struct script_thread *thread)
{
    lua_Number ms = luaL_checknumber(L, 2);

    stream_lua_datagrams_check(L, thread);
    if (!(ms >= 0) || ms > INT32_MAX) {
        return luaL_error(L, "bad timeout value");
    }
    lua_pushvalue(L, 2);
    lua_rawseti(L, 1, 2);
    return 0;
}

static const struct script_row methods[] = {
    {"receive", receive_one, PHASES, true},
    {"send", send_one, PHASES, false},
    {"settimeout", settimeout, PHASES, false},
    {0},
};

void stream_lua_push_datagrams(lua_State *L, struct stream_lua *lua)
{
    lua_createtable(L, 2, 0);
    lua_pushlightuserdata(L, lua);
    lua_rawseti(L, -2, 1);
    if (luaL_newmetatable(L, "script session of datagrams")) {
        lua_newtable(L);
        script_add(L, methods);
        lua_setfield(L, -2, "__index");
    }
    lua_setmetatable(L, -2);
}
