/* What Lua says to the client of a session: ngx.say, print, flush and eof. */
#include <errno.h>

#include "base/clock.h"
#include "lua/vm/said.h"
#include "stream/modules/lua/lua.h"

#define OUTPUT_PHASES (SCRIPT_PREREAD | SCRIPT_CONTENT)

/* Bytes that may wait for the client before who says more waits with them. */
#define WAITING_MOST (128u * 1024)

/* A thread that cannot wait for the client, since another one does, looks again after so long. */
#define CROWDED_MS 10

/* The client takes what waits until fewer than `below` bytes are left. False: it does not; that was
 * logged. MAY WAIT. */
static bool wait_taken(struct stream_lua *lua, uint32_t below)
{
    struct session *session = lua->session;
    struct conn *conn = session->conn;

    while (conn->output_wait.waiter != NULL) { /* another thread waits */
        if (fiber_sleep(clock_now.now_ms + CROWDED_MS) == WAIT_CANCELLED) {
            return false;
        }
    }
    switch (conn_wait_sent(conn, below, lua->subject.settings->send_timeout_ms)) {
    case WAIT_READY:
        return true;
    case WAIT_TIMED_OUT:
        lua->has_failed = true;
        log_info(&session->log, ETIMEDOUT, "client timed out");
        return false;
    case WAIT_CANCELLED:
        break;
    }
    lua->has_failed = true;
    return false;
}

/* Pushes what all of these return. */
static int stream_lua_output_tell(lua_State *L, bool is_well)
{
    if (!is_well) {
        return script_fail(L, "nginx output filter error");
    }
    lua_pushinteger(L, 1);
    return 1;
}

static int stream_lua_output_give(lua_State *L, struct script_thread *thread, bool ends_line)
{
    struct stream_lua *lua = stream_lua_check(L, thread);
    struct session *session = lua->session;
    struct str text = script_said(L, ends_line);

    if (lua->has_ended_output) {
        return script_fail(L, "seen eof");
    }
    if (lua->source.is_shaking) {
        return script_fail(L, "socket busy connecting");
    }
    if (session->conn == NULL) {
        if (text.len != 0) {
            session_send_datagram(session, text);
        }
        return stream_lua_output_tell(L, session->flow != NULL);
    }
    if (lua->has_failed || session->conn->is_broken) {
        return stream_lua_output_tell(L, false);
    }
    conn_write(session->conn, text);
    conn_flush_later(session->conn);
    return stream_lua_output_tell(L, conn_unsent(session->conn) < WAITING_MOST ||
                                         wait_taken(lua, WAITING_MOST));
}

static int stream_lua_output_say(lua_State *L, struct script_thread *thread)
{
    return stream_lua_output_give(L, thread, true);
}

static int print(lua_State *L, struct script_thread *thread)
{
    return stream_lua_output_give(L, thread, false);
}

static int stream_lua_output_flush(lua_State *L, struct script_thread *thread)
{
    int count = lua_gettop(L);
    bool waits = false;

    if (count > 1) {
        return luaL_error(L, "attempt to pass %d arguments, but accepted 0 or 1", count);
    }
    if (count == 1) {
        luaL_checktype(L, 1, LUA_TBOOLEAN);
        waits = lua_toboolean(L, 1);
    }
    script_demand(L, thread, OUTPUT_PHASES);
    struct stream_lua *lua = stream_lua_check(L, thread);
    struct session *session = lua->session;
    if (lua->has_ended_output) {
        return script_fail(L, "seen eof");
    }
    if (lua->source.is_shaking) {
        return script_fail(L, "socket busy connecting");
    }
    if (session->conn == NULL) {
        return stream_lua_output_tell(L, session->flow != NULL);
    }
    bool is_well = !lua->has_failed && conn_flush(session->conn);

    if (is_well && waits && conn_unsent(session->conn) != 0 && !wait_taken(lua, 1)) {
        return script_fail(L, session->conn->is_broken ? "client aborted" : "timeout");
    }
    return stream_lua_output_tell(L, is_well);
}

static int eof(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 0) {
        return luaL_error(L, "no argument is expected");
    }
    script_demand(L, thread, OUTPUT_PHASES);
    struct stream_lua *lua = stream_lua_check(L, thread);
    struct conn *conn = lua->session->conn;
    if (lua->has_ended_output) {
        return script_fail(L, "seen eof");
    }
    if (lua->source.is_shaking) {
        return script_fail(L, "socket busy connecting");
    }
    lua->has_ended_output = true;
    if (conn != NULL && !lua->has_failed) {
        conn_shutdown_output(conn);
        conn_flush(conn);
    }
    return stream_lua_output_tell(L, !lua->has_failed);
}

static const struct script_row rows[] = {
    {"say", stream_lua_output_say, OUTPUT_PHASES, .waits = true},
    {"print", print, OUTPUT_PHASES, .waits = true},
    {"flush", stream_lua_output_flush, OUTPUT_PHASES | SCRIPT_ARGUMENTS_FIRST, .waits = true},
    {"eof", eof, OUTPUT_PHASES | SCRIPT_ARGUMENTS_FIRST, .waits = false},
    {0},
};

void stream_lua_output_add(lua_State *L)
{
    script_add(L, rows);
}
