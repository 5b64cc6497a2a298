/* Timeouts and options of sockets. */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "lua/sockets/socket.h"

/* Sets a timeout of the table at index 1; nil takes it back. */
static void set_timeout(lua_State *L, int index, int field)
{
    lua_Number ms = lua_tonumber(L, index);

    if (!(ms >= 0) || ms > INT32_MAX) {
        luaL_error(L, "bad timeout value");
    }
    lua_pushinteger(L, (lua_Integer) ms);
    lua_rawseti(L, 1, field);
}

static int settimeout(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    if (lua_gettop(L) != 2) {
        return luaL_error(
            L, "ngx.socket settimeout: expecting 2 arguments (including the object) but seen %d",
            lua_gettop(L));
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    set_timeout(L, 2, SOCKET_CONNECT_TIMEOUT);
    set_timeout(L, 2, SOCKET_SEND_TIMEOUT);
    set_timeout(L, 2, SOCKET_READ_TIMEOUT);
    return 0;
}

static int settimeouts(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    if (lua_gettop(L) != 4) {
        return luaL_error(
            L, "ngx.socket settimeout: expecting 4 arguments (including the object) but seen %d",
            lua_gettop(L));
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    set_timeout(L, 2, SOCKET_CONNECT_TIMEOUT);
    set_timeout(L, 3, SOCKET_SEND_TIMEOUT);
    set_timeout(L, 4, SOCKET_READ_TIMEOUT);
    return 0;
}

/* ---- options of the kernel's socket */

static const struct {
    const char *name;
    int level, option;
    bool is_flag;
} options[] = {
    {"keepalive", SOL_SOCKET, SO_KEEPALIVE, true},
    {"reuseaddr", SOL_SOCKET, SO_REUSEADDR, true},
    {"tcp-nodelay", IPPROTO_TCP, TCP_NODELAY, true},
    {"sndbuf", SOL_SOCKET, SO_SNDBUF, false},
    {"rcvbuf", SOL_SOCKET, SO_RCVBUF, false},
    {"keepidle", IPPROTO_TCP, TCP_KEEPIDLE, false},
    {"keepintvl", IPPROTO_TCP, TCP_KEEPINTVL, false},
    {"keepcnt", IPPROTO_TCP, TCP_KEEPCNT, false},
};

/* The place in the table of the option of this name; -1: of none, as with NULL. */
static int number_of(const char *name)
{
    for (unsigned i = 0; name != NULL && i < sizeof(options) / sizeof(options[0]); i++) {
        if (strcmp(options[i].name, name) == 0) {
            return (int) i;
        }
    }
    return -1;
}

/* Its place in the table; -1 with results pushed. The socket's descriptor in *fd. */
static int find_option(lua_State *L, const struct script_thread *thread, int *fd)
{
    const struct script_socket *socket = socket_check(L);

    if (socket == NULL) {
        luaL_error(L, "socket is never created nor connected");
        return -1;
    }
    if (lua_isnoneornil(L, 2)) {
        script_fail(L, "missing the \"option\" argument");
        return -1;
    }
    const char *name =
        lua_isboolean(L, 2) ? (lua_toboolean(L, 2) ? "true" : "false") : lua_tostring(L, 2);
    int option = number_of(name);

    if (option == -1) {
        lua_pushnil(L);
        lua_pushfstring(L, "unsupported option %s", name != NULL ? name : luaL_typename(L, 2));
        return -1;
    }
    if (socket->conn == NULL) {
        script_fail(L, "closed");
        return -1;
    }
    socket_demand_own(L, thread, socket);
    *fd = socket->conn->source.fd;
    return option;
}

static int fail_errno(lua_State *L)
{
    char text[ERROR_TEXT_MAX];

    return script_fail(L, socket_error_text(errno, text));
}

static int setoption(lua_State *L, struct script_thread *thread)
{
    int fd = -1;

    if (socket_check(L) != NULL && !lua_isnoneornil(L, 2) && lua_isnoneornil(L, 3)) {
        return script_fail(L, "missing the \"value\" argument");
    }
    int option = find_option(L, thread, &fd);

    if (option < 0) {
        return 2;
    }
    int value = lua_isboolean(L, 3) ? lua_toboolean(L, 3) : (int) luaL_checkinteger(L, 3);
    if (options[option].is_flag) {
        value = value != 0;
    }
    if (setsockopt(fd, options[option].level, options[option].option, &value, sizeof(value)) ==
        -1) {
        return fail_errno(L);
    }
    lua_pushboolean(L, true);
    return 1;
}

static int getoption(lua_State *L, struct script_thread *thread)
{
    int fd = -1;
    int value = 0;
    socklen_t size = sizeof(value);
    int option = find_option(L, thread, &fd);

    if (option < 0) {
        return 2;
    }
    if (getsockopt(fd, options[option].level, options[option].option, &value, &size) == -1) {
        return fail_errno(L);
    }
    lua_pushinteger(L, options[option].is_flag ? value != 0 : value);
    return 1;
}

static int getfd(lua_State *L, struct script_thread *thread)
{
    const struct script_socket *socket = socket_check(L);
    struct conn *conn;

    (void) thread;
    if (socket == NULL) {
        return luaL_error(L, "socket is never created nor connected");
    }
    conn = socket->conn != NULL     ? socket->conn
           : socket->source != NULL ? socket->source->conn
                                    : NULL;
    if (conn == NULL) {
        return script_fail(L, "closed");
    }
    lua_pushinteger(L, conn->source.fd);
    return 1;
}

/* clang-format off */
const struct script_row socket_option_rows[] = {
    {"settimeout", settimeout, 0, false},
    {"settimeouts", settimeouts, 0, false},
    {"setoption", setoption, 0, false},
    {"getoption", getoption, 0, false},
    {"getfd", getfd, 0, false},
    {0},
};
/* clang-format on */
