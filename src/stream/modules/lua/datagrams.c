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
    int count = lua_gettop(L);

    if (count != 1 && count != 2) {
        return luaL_error(L, "expecting 1 or 2 arguments (including the object), but got %d",
                          count);
    }
    struct session *session = stream_lua_datagrams_check(L, thread);
    const struct script_settings *settings = thread->subject->settings;

    if (session_is_awaited(session)) {
        return script_fail(L, "socket busy");
    }
    lua_Number most = count == 2 && !lua_isnil(L, 2) ? luaL_checknumber(L, 2) : DATAGRAM_MOST;
    size_t size = most >= 0 && most < DATAGRAM_MOST ? (size_t) most : DATAGRAM_MOST;
    lua_rawgeti(L, 1, 2);
    lua_Integer own_ms = lua_tointeger(L, -1);
    uint64_t timeout_ms = own_ms > 0 ? (uint64_t) own_ms : settings->read_timeout_ms;
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
    script_push_str(L, str_head(datagram, size));
    session_drop_datagram(session);
    return 1;
}

static int send_one(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 2) {
        return luaL_error(L, "expecting 2 arguments (including the object), but got %d",
                          lua_gettop(L));
    }
    struct session *session = stream_lua_datagrams_check(L, thread);
    struct str datagram = script_check_pieces(L, 2);

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
    if (lua_gettop(L) != 2) {
        return luaL_error(
            L,
            "ngx.socket settimeout: expecting at least 2 arguments (including the object) but seen %d",
            lua_gettop(L));
    }
    stream_lua_datagrams_check(L, thread);
    lua_Number ms = lua_tonumber(L, 2);
    lua_pushinteger(L, ms >= 0 && ms <= INT32_MAX ? (lua_Integer) ms : 0); /* 0: the usual */
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
