/* send and shutdown. */
#include <errno.h>
#include <string.h>

#include "lua/sockets/socket.h"

#define PIECE_SIZE 262144u /* bytes that are queued at a time */
#define INPUT_MOST 65536u  /* that are read after a failure */

/* ---- what is sent ---- */

static const char *fault_of(lua_State *L, int type)
{
    return lua_pushfstring(L, "bad data type %s found", lua_typename(L, type));
}

/* Pushes the pieces of an array table, nested ones too, onto the stack as one string. Argument
 * `argument` is blamed. */
static void push_table(lua_State *L, int index, int argument)
{
    int length = (int) lua_objlen(L, index);
    int base = lua_gettop(L);
    int pieces = 0;

    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        lua_Number key = lua_type(L, -2) == LUA_TNUMBER ? lua_tonumber(L, -2) : 0;

        if (key < 1 || key != (lua_Number) (lua_Integer) key) {
            luaL_argerror(L, argument, "non-array table found");
        }
        length = key > length ? (int) key : length;
    }
    for (int i = 1; i <= length; i++) {
        luaL_checkstack(L, 4, "too many pieces");
        lua_rawgeti(L, index, i);
        if (lua_type(L, -1) == LUA_TTABLE) {
            push_table(L, lua_gettop(L), argument);
            lua_remove(L, -2);
        } else if (!lua_isstring(L, -1)) {
            luaL_argerror(L, argument, fault_of(L, lua_type(L, -1)));
        }
        if (++pieces == 1000) {
            lua_concat(L, pieces);
            pieces = 1;
        }
    }
    if (pieces == 0) {
        lua_pushliteral(L, "");
        pieces = 1;
    }
    lua_concat(L, pieces);
    lua_settop(L, base + 1);
}

struct str script_check_pieces(lua_State *L, int index)
{
    struct str text;

    switch (lua_type(L, index)) {
    case LUA_TSTRING:
    case LUA_TNUMBER:
        break;
    case LUA_TNIL:
        lua_pushliteral(L, "nil");
        lua_replace(L, index);
        break;
    case LUA_TBOOLEAN:
        lua_pushstring(L, lua_toboolean(L, index) ? "true" : "false");
        lua_replace(L, index);
        break;
    case LUA_TTABLE:
        push_table(L, index, index);
        lua_replace(L, index);
        break;
    default:
        luaL_argerror(
            L, index,
            lua_pushfstring(L, "string, number, boolean, nil, or array table expected, got %s",
                            luaL_typename(L, index)));
    }
    text.data = lua_tolstring(L, index, &text.len);
    return text;
}

/* ---- how it ends ---- */

static int fail_closed(lua_State *L, const struct script_thread *thread,
                       const struct script_socket *socket)
{
    struct socket_log words;

    socket_log_begin(thread, socket != NULL ? socket->name : NULL, &words);
    log_error(&words.log, 0,
              "attempt to send data on a closed socket: u:" SOCKET_POINTER ", c:" SOCKET_POINTER
              ", ft:0 eof:%d",
              (uintptr_t) socket, socket != NULL ? (uintptr_t) socket->conn : 0,
              socket != NULL && socket->has_sent_last);
    return script_fail(L, "closed");
}

static int fail_broken(lua_State *L, const struct script_thread *thread,
                       struct script_socket *socket, int error)
{
    char text[ERROR_TEXT_MAX];
    struct socket_log words;

    socket_log_begin(thread, socket->name, &words);
    /* Clients that leave are no errors of the server. */
    log_at(&words.log, socket->is_borrowed ? LOG_INFO : LOG_ERROR, error, "send() failed");
    /* An answer that came before the end can still be received. */
    conn_fill_last(socket->conn, INPUT_MOST);
    socket->has_sent_last = true;
    return script_fail(L, socket_error_text(error, text));
}

static int fail_late(lua_State *L, const struct script_thread *thread, struct script_socket *socket)
{
    struct socket_log words;

    socket_log_begin(thread, socket->name, &words);
    log_error(&words.log, 0, "%slua tcp socket write timed out", socket_log_prefix(thread));
    socket->has_sent_last = true;
    return script_fail(L, "timeout");
}

/* ---- the functions ---- */

/* MAY WAIT. */
static int send_all(lua_State *L, struct script_thread *thread, struct script_socket *socket,
                    struct str bytes)
{
    uint64_t timeout_ms =
        socket_timeout(L, SOCKET_SEND_TIMEOUT, socket_settings(thread)->send_timeout_ms);

    socket_hold(L);
    if (socket->conn->is_broken && bytes.len != 0) {
        return fail_broken(L, thread, socket, EPIPE); /* reading has reported why */
    }
    for (size_t at = 0; at < bytes.len;) {
        struct str piece = str_head(str_skip(bytes, at), PIECE_SIZE);

        if (!conn_write_now(socket->conn, piece)) {
            return fail_broken(L, thread, socket, socket->conn->error);
        }
        at += piece.len;
        if (conn_unsent(socket->conn) == 0) {
            continue;
        }
        socket->is_writing = true;
        enum wait_result result = conn_wait_sent(socket->conn, 1, timeout_ms);
        socket->is_writing = false;
        if (result == WAIT_TIMED_OUT) {
            return fail_late(L, thread, socket);
        }
        if (result == WAIT_CANCELLED && socket->conn->is_broken) {
            return fail_broken(L, thread, socket, socket->conn->error);
        }
        if (result == WAIT_CANCELLED) {
            socket_abandon(socket);
            return 0;
        }
    }
    lua_pushinteger(L, (lua_Integer) bytes.len);
    return 1;
}

static int send_it(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 2) {
        return luaL_error(L, "expecting 2 arguments (including the object), but got %d",
                          lua_gettop(L));
    }
    struct script_socket *socket = socket_check(L);
    if (socket == NULL || (socket->conn == NULL && socket->stage != SOCKET_CONNECTING) ||
        socket->has_sent_last) {
        return fail_closed(L, thread, socket);
    }
    socket_demand_own(L, thread, socket);
    if (socket->stage == SOCKET_CONNECTING || socket_is_shaking(socket)) {
        return script_fail(L, "socket busy connecting");
    }
    if (socket_is_written(socket)) {
        return script_fail(L, "socket busy writing");
    }
    struct str bytes = script_check_pieces(L, 2);
    socket->is_touched = true;
    return send_all(L, thread, socket, bytes);
}

static int shut_down(lua_State *L, struct script_thread *thread)
{
    struct script_socket *socket = socket_check(L);

    if (lua_gettop(L) != 2) {
        return luaL_error(L, "expecting 2 arguments (including the object), but got %d",
                          lua_gettop(L));
    }
    if (strcmp(luaL_checkstring(L, 2), "send") != 0) {
        return luaL_error(L, "bad shutdown argument: %s", lua_tostring(L, 2));
    }
    if (socket == NULL || socket->conn == NULL || socket->has_sent_last) {
        return script_fail(L, "closed");
    }
    socket_demand_own(L, thread, socket);
    if (socket->stage == SOCKET_CONNECTING || socket_is_shaking(socket)) {
        return script_fail(L, "socket busy connecting");
    }
    if (socket_is_written(socket)) {
        return script_fail(L, "socket busy writing");
    }
    conn_shutdown_output(socket->conn);
    socket->has_sent_last = true;
    lua_pushinteger(L, 1);
    return 1;
}

const struct script_row socket_send_rows[] = {
    {"send", send_it, SCRIPT_WAITING, true},
    {0},
};

const struct script_row socket_shutdown_rows[] = {
    {"shutdown", shut_down, SCRIPT_WAITING, false},
    {0},
};
