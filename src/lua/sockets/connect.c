/* connect, bind and close. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "lua/sockets/pool.h"
#include "lua/sockets/socket.h"
#include "lua/sockets/target.h"
#include "upstream/connection.h"

/* What connect is asked for. Texts are on the Lua stack. */
struct connect_options {
    struct str host;
    unsigned port;
    bool is_unix;
    struct str key; /* of the pool */
    unsigned pool_size;
    bool makes_pool; /* its size or its backlog was said: there is one at once, of that size */
    int64_t backlog; /* -1 = not said */
    uint64_t timeout_ms;
    struct addr local; /* len 0 = any */
};

/* ---- arguments */

static int bad_option(lua_State *L, int index, const char *name, const char *what,
                      const char *value)
{
    return luaL_argerror(L, index,
                         lua_pushfstring(L, "bad \"%s\" option %s: %s", name, what, value));
}

/* A number among the options, or `usual`; an error is thrown below `least`. */
static int64_t number_option(lua_State *L, int index, const char *name, int64_t least,
                             int64_t usual)
{
    lua_getfield(L, index, name);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        return usual;
    }
    if (!lua_isnumber(L, -1)) {
        if (least == 0) {
            lua_pop(L, 1);
            return usual; /* of a backlog nobody says so */
        }
        bad_option(L, index, name, "type", luaL_typename(L, -1));
    }
    lua_Number number = lua_tonumber(L, -1);
    if (!(number >= (lua_Number) least) || number > 1e9) {
        bad_option(L, index, name, "value", lua_pushfstring(L, "%f", number));
    }
    lua_pop(L, 1);
    return (int64_t) number;
}

/* The options; leaves the key of the pool on the stack, or nil. */
static void read_options(lua_State *L, const struct script_thread *thread, int index,
                         struct connect_options *options)
{
    options->pool_size = (unsigned) socket_settings(thread)->pool_size;
    options->backlog = -1;
    if (lua_type(L, index) != LUA_TTABLE) {
        lua_pushnil(L);
        return;
    }
    lua_getfield(L, index, "pool");
    if (!lua_isnil(L, -1) && lua_type(L, -1) != LUA_TSTRING && lua_type(L, -1) != LUA_TNUMBER) {
        bad_option(L, index, "pool", "type", luaL_typename(L, -1));
    }
    int64_t pool_size = number_option(L, index, "pool_size", 1, 0);
    options->backlog = number_option(L, index, "backlog", 0, -1);
    options->makes_pool = pool_size != 0 || options->backlog >= 0;
    if (pool_size != 0) {
        options->pool_size = (unsigned) pool_size;
    }
}

/* The address that the socket was bound to. */
static void read_local(lua_State *L, struct connect_options *options)
{
    struct str text;

    lua_rawgeti(L, 1, SOCKET_BIND);
    text.data = lua_tolstring(L, -1, &text.len);
    if (text.data == NULL || !addr_parse_ip(text, &options->local)) {
        options->local.len = 0;
    } else {
        lua_rawgeti(L, 1, SOCKET_BIND_PORT);
        addr_set_port(&options->local, (uint16_t) lua_tointeger(L, -1));
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* 0, or what is to be returned. */
static int read_arguments(lua_State *L, const struct script_thread *thread,
                          struct connect_options *options)
{
    int count = lua_gettop(L);

    if (count < 2 || count > 4) {
        return luaL_error(
            L,
            "ngx.socket connect: expecting 2, 3, or 4 arguments (including the object), but seen %d",
            count);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    options->host = script_check_str(L, 2);
    options->is_unix = str_starts_nocase(options->host, STR("unix:"));
    read_options(L, thread, count, options);
    if (options->is_unix) {
        options->port = 0;
    } else if (count < 3 || !lua_isnumber(L, 3)) {
        return script_fail(L, "missing the port number");
    } else {
        lua_Integer port = lua_tointeger(L, 3);

        if (port < 0 || port > 65535) {
            lua_pushnil(L);
            lua_pushfstring(L, "bad port number: %d", (int) port);
            return 2;
        }
        options->port = (unsigned) port;
    }
    if (lua_isnil(L, -1)) {
        lua_pushvalue(L, 2);
        if (!options->is_unix) {
            lua_pushfstring(L, ":%d", (int) options->port);
            lua_concat(L, 2);
        }
    }
    options->key.data = lua_tolstring(L, -1, &options->key.len);
    lua_rawseti(L, 1, SOCKET_KEY); /* keeps it */
    options->timeout_ms =
        socket_timeout(L, SOCKET_CONNECT_TIMEOUT, socket_settings(thread)->connect_timeout_ms);
    read_local(L, options);
    return 0;
}

/* ---- a connection of its own */

static const struct conn_owner socket_owner = {.input = NULL}; /* wakes who reads */

void socket_attach(struct script_socket *socket, const struct idle_conn *idle, uint64_t buffer_size)
{
    socket->conn = idle->conn;
    socket->reused = idle->reused;
    socket->tls_identity = idle->tls_identity;
    socket->has_read_last = socket->has_sent_last = false;
    socket->is_touched = false;
    socket->buffer_rest = 0;
    idle->conn->owner = &socket_owner;
    idle->conn->user = socket;
    script_conn_source_init(&socket->own_source, idle->conn, buffer_size);
    socket->source = &socket->own_source.source;
    socket->stage = SOCKET_OPEN;
    conn_peer(idle->conn, &socket->peer);
}

/* "host:port(address)", for the log. */
static void name_peer(struct script_socket *socket, const struct connect_options *options)
{
    struct writer writer = {socket->name, socket->name + SOCKET_NAME_MAX - 1};
    char text[ADDR_TEXT_MAX + 16], *at = text;

    writer_put(&writer, options->host);
    if (!options->is_unix) {
        *at++ = ':';
        at = format_uint(at, options->port);
        *at++ = '(';
        at += addr_format(&socket->peer, false, at);
        *at++ = ')';
        writer_put(&writer, (struct str){text, (size_t) (at - text)});
    }
    *writer.at = '\0';
}

enum upstream_connect_result socket_reach(struct script_thread *thread,
                                          struct script_socket *socket,
                                          struct socket_reaching *reaching)
{
    struct socket_log words;
    struct upstream_connection_options options = {.tells_timeout = true,
                                                  .local = reaching->local.len != 0
                                                               ? &reaching->local
                                                               : NULL};
    char text[ADDR_TEXT_MAX];
    struct upstream_target target = {.addr = socket->peer, .log = &words.log};

    socket_log_begin(thread, socket->name, &words);
    target.name = (struct str){text, addr_format(&socket->peer, true, text)};
    if (thread->subject->kind->hops != NULL) {
        options.hops = thread->subject->kind->hops(thread->subject);
    }
    enum upstream_connect_result result =
        upstream_connection_reach(&target, &options, clock_now.now_ms + reaching->timeout_ms,
                                  &reaching->conn, &reaching->error);
    if (result == UPSTREAM_CONNECT_TIMED_OUT) {
        log_error(&words.log, 0, "%slua tcp socket connect timed out", socket_log_prefix(thread));
    }
    return result;
}

/* The socket has nothing, and no place in its pool. */
static void script_connect_give_up(struct script_socket *socket)
{
    socket->stage = SOCKET_IDLE;
    if (socket->pool != NULL) {
        socket_pool_leave(socket->pool);
        socket->pool = NULL;
    }
}

/* MAY WAIT. */
static int make_connection(lua_State *L, struct script_thread *thread, struct script_socket *socket,
                           const struct connect_options *options)
{
    const char *reason;
    char text[ERROR_TEXT_MAX];
    struct socket_reaching reaching = {.local = options->local, .timeout_ms = options->timeout_ms};

    socket->stage = SOCKET_RESOLVING;
    socket->name[0] = '\0';
    reason =
        socket_target_find(L, thread,
                           &(struct socket_target){options->host, options->port, options->is_unix},
                           &socket->peer);
    if (reason != NULL) {
        script_connect_give_up(socket);
        return script_fail(L, reason);
    }
    name_peer(socket, options);
    socket->stage = SOCKET_CONNECTING;
    switch (socket_reach(thread, socket, &reaching)) {
    case UPSTREAM_CONNECT_OK:
        socket_attach(socket, &(struct idle_conn){.conn = reaching.conn},
                      socket_settings(thread)->buffer_size);
        lua_pushinteger(L, 1);
        return 1;
    case UPSTREAM_CONNECT_TIMED_OUT:
        script_connect_give_up(socket);
        return script_fail(L, "timeout");
    case UPSTREAM_CONNECT_CANCELLED:
        script_connect_give_up(socket);
        return 0;
    default:
        script_connect_give_up(socket);
        return script_fail(L, socket_error_text(reaching.error, text));
    }
}

/* A place in the pool, and perhaps a connection; 0: one is to be made. MAY WAIT. */
static int enter_pool(lua_State *L, struct script_thread *thread, struct script_socket *socket,
                      const struct connect_options *options)
{
    struct socket_pool *pool = socket_pool_find(L, options->key);
    struct idle_conn idle;
    struct socket_log words;

    if (pool == NULL && options->makes_pool) {
        pool = socket_pool_make(L, options->key, options->pool_size, options->backlog);
    }
    if (pool == NULL) {
        return 0;
    }
    socket->stage = SOCKET_CONNECTING;
    switch (socket_pool_enter(pool, clock_now.now_ms + options->timeout_ms, &idle)) {
    case POOL_REUSED:
        socket->pool = pool;
        idle.reused++;
        socket_attach(socket, &idle, socket_settings(thread)->buffer_size);
        name_peer(socket, options);
        lua_pushinteger(L, 1);
        return 1;
    case POOL_FRESH:
        socket->pool = pool;
        return 0;
    case POOL_CROWDED:
        socket->stage = SOCKET_IDLE;
        return script_fail(L, "too many waiting connect operations");
    case POOL_TIMED_OUT:
        socket->stage = SOCKET_IDLE;
        socket_log_begin(thread, NULL, &words);
        log_error(&words.log, 0,
                  "%slua tcp socket queued connect timed out, when trying to connect to %.*s:%u",
                  socket_log_prefix(thread), STR_ARG(options->host), options->port);
        return script_fail(L, "timeout");
    case POOL_CANCELLED:
        break;
    }
    socket->stage = SOCKET_IDLE;
    lua_pushnil(L);
    return 1;
}

static int connect_to(lua_State *L, struct script_thread *thread)
{
    struct connect_options options = {.local.len = 0};
    int results = read_arguments(L, thread, &options);

    if (results != 0) {
        return results;
    }
    struct script_socket *socket = socket_make(L, thread);
    results = socket_fail_busy(L, socket);
    if (results != 0) {
        return results;
    }
    socket_close(socket); /* a former connection */
    socket_make(L, thread);
    socket_hold(L);
    results = enter_pool(L, thread, socket, &options);
    return results != 0 ? results : make_connection(L, thread, socket, &options);
}

/* ---- the rest */

static int close_it(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 1) {
        return luaL_error(L, "expecting 1 argument (including the object) but seen %d",
                          lua_gettop(L));
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
    bool was_over = socket->has_read_last && socket->has_sent_last;
    socket_close(socket);
    if (was_over) {
        return script_fail(L, "closed");
    }
    lua_pushinteger(L, 1);
    return 1;
}

static int bind_to(lua_State *L, struct script_thread *thread)
{
    struct addr addr;
    lua_Integer port = 0;

    (void) thread;
    if (lua_gettop(L) != 2 && lua_gettop(L) != 3) {
        return luaL_error(L, "expecting 2 arguments, but got %d", lua_gettop(L));
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    struct str text = script_check_str(L, 2);

    if (!lua_isnoneornil(L, 3)) {
        port = luaL_checkinteger(L, 3);
    }
    if (port < 0 || port > 65535) {
        lua_pushnil(L);
        lua_pushfstring(L, "bad port number: %d", (int) port);
        return 2;
    }
    if (str_starts(text, STR("[")) || !addr_parse_ip(text, &addr)) {
        return script_fail(L, "bad address");
    }
    lua_pushvalue(L, 2);
    lua_rawseti(L, 1, SOCKET_BIND);
    lua_pushinteger(L, port);
    lua_rawseti(L, 1, SOCKET_BIND_PORT);
    lua_pushboolean(L, true);
    return 1;
}

const struct script_row socket_connect_rows[] = {
    {"connect", connect_to, SCRIPT_WAITING, true},
    {"close", close_it, 0, false},
    {"bind", bind_to, 0, false},
    {0},
};
