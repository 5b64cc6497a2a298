/* setkeepalive and getreusedtimes. */
#include <errno.h>

#include "lua/sockets/pool.h"
#include "lua/sockets/socket.h"
#include "server/generation.h"

static int getreusedtimes(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 1) {
        return luaL_error(L, "expecting 1 argument (including the object), but got %d",
                          lua_gettop(L));
    }
    const struct script_socket *socket = socket_check_own(L);
    if (socket == NULL || socket->stage == SOCKET_IDLE || socket->stage == SOCKET_RESOLVING) {
        return script_fail(L, "closed");
    }
    socket_demand_own(L, thread, socket);
    lua_pushinteger(L, socket->stage == SOCKET_OPEN ? (lua_Integer) socket->reused : 0);
    return 1;
}

static bool script_keep_is_over(const struct script_socket *socket)
{
    const struct conn *conn = socket->conn;

    return socket->has_read_last || socket->has_sent_last || conn->is_broken ||
           conn->is_input_closed;
}

/* What stands against keeping the connection for others; or NULL. */
static const char *why_not(struct script_socket *socket)
{
    struct conn *conn = socket->conn;

    if (conn_input_len(conn) != 0) {
        return conn->is_peer_closed ? "closed" : "unread data in buffer";
    }
    if (conn_unsent(conn) != 0) {
        return "socket busy writing";
    }
    if (conn_fill(conn, 512, 512)) {
        socket_close(socket);
        return "connection in dubious state";
    }
    return conn->is_input_closed || conn->is_peer_closed || conn->is_broken ? "closed" : NULL;
}

/* The connection leaves the socket for the pool. */
static void hand_over(lua_State *L, struct script_socket *socket, uint64_t timeout_ms,
                      unsigned size)
{
    const struct idle_conn idle = {.conn = socket->conn,
                                   .reused = socket->reused,
                                   .tls_identity = socket->tls_identity};
    struct socket_pool *pool = socket->pool;

    if (pool == NULL) {
        struct str key;

        lua_rawgeti(L, 1, SOCKET_KEY);
        key.data = luaL_checklstring(L, -1, &key.len);
        pool = socket_pool_make(L, key, size, -1);
        socket_pool_join(pool);
    }
    socket->conn = NULL;
    socket->pool = NULL;
    socket_close(socket);
    if (worker_is_quitting) {
        conn_close(idle.conn);
        socket_pool_leave(pool);
    } else {
        socket_pool_keep(pool, &idle, timeout_ms);
    }
}

/* A number, or `usual` where there is none. */
static lua_Number number_or(lua_State *L, int index, lua_Number usual)
{
    return lua_isnoneornil(L, index) ? usual : luaL_checknumber(L, index);
}

/* The size of a pool that is there already does not change. */
static bool has_pool(lua_State *L, const struct script_socket *socket)
{
    struct str key;

    if (socket->pool != NULL) {
        return true;
    }
    lua_rawgeti(L, 1, SOCKET_KEY);
    key.data = lua_tolstring(L, -1, &key.len);
    bool is_there = key.data != NULL && socket_pool_find(L, key) != NULL;
    lua_pop(L, 1);
    return is_there;
}

/* The third argument. */
static unsigned pool_size_of(lua_State *L, const struct script_settings *settings)
{
    lua_Number size = number_or(L, 3, (lua_Number) settings->pool_size);

    if (!(size >= 1) || size > 1e9) {
        luaL_argerror(L, 3,
                      lua_pushfstring(L, "bad \"pool_size\" option value: %d",
                                      size > -1e9 && size < 1 ? (int) size : 0));
    }
    return (unsigned) size;
}

static int setkeepalive(lua_State *L, struct script_thread *thread)
{
    const struct script_settings *settings = socket_settings(thread);
    int count = lua_gettop(L);

    if (count < 1 || count > 3) {
        return luaL_error(L, "expecting 1 to 3 arguments (including the object), but got %d",
                          count);
    }
    struct script_socket *socket = socket_check_own(L);
    if (socket == NULL || socket->stage == SOCKET_IDLE || socket->stage == SOCKET_RESOLVING) {
        return script_fail(L, "closed");
    }
    socket_demand_own(L, thread, socket);
    int busy = socket_fail_busy(L, socket);
    if (busy != 0) {
        return busy;
    }
    if (script_keep_is_over(socket)) {
        return script_fail(L, "closed");
    }
    unsigned size = has_pool(L, socket) ? 0 : pool_size_of(L, settings);
    const char *reason = why_not(socket);
    if (reason != NULL) {
        return script_fail(L, reason);
    }
    if (!lua_isnoneornil(L, 2) && !lua_isnumber(L, 2)) {
        socket_close(socket); /* as on the reference; a wrong size leaves it open */
    }
    lua_Number timeout_ms = number_or(L, 2, (lua_Number) settings->keepalive_timeout_ms);
    if (timeout_ms < 0 || timeout_ms > INT32_MAX) { /* the reference has unsigned ones */
        timeout_ms = INT32_MAX;
    }
    hand_over(L, socket, (uint64_t) timeout_ms, size);
    lua_pushinteger(L, 1);
    return 1;
}

const struct script_row socket_keep_rows[] = {
    {"getreusedtimes", getreusedtimes, 0, false},
    {"setkeepalive", setkeepalive, 0, false},
    {0},
};
