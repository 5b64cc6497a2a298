/* ngx.socket.udp: datagrams to one peer. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "lua/sockets/socket.h"
#include "lua/sockets/target.h"
#include "net/datagram/connection.h"

#define UDP_MAGIC 0x0d9a0001u
#define DATAGRAM_MOST 65536 /* bytes that receive gives */

/* Fields of its table, by number. */
enum { UDP_STATE = 1, UDP_TIMEOUT = 2, UDP_BIND = 3 };

/* A userdata. */
struct udp_socket {
    uint32_t magic;
    struct script_resource resource;
    struct script_subject *subject;        /* NULL: it is closed */
    struct datagram_connection connection; /* open while there is a subject */
    struct wait_point wait;                /* a datagram, or an error */
    struct buf datagram;                   /* that has come */
    bool has_one;                          /* a datagram came and was not received */
    bool is_paused;                        /* the kernel keeps what comes */
    bool is_reading, is_resolving;         /* a thread waits in it */
    int error;                             /* errno that the kernel reported; 0 = none */
    char name[SOCKET_NAME_MAX];            /* "host:port(address)" */
};

/* ---- datagrams */

static void received(struct datagram_connection *connection, struct str datagram)
{
    struct udp_socket *udp = container_of(connection, struct udp_socket, connection);

    udp->datagram.len = 0;
    buf_append(&udp->datagram, datagram);
    udp->has_one = true;
    udp->is_paused = true;
    datagram_connection_pause(connection);
    wait_signal_later(&udp->wait);
}

static void failed(struct datagram_connection *connection, int error, bool is_send)
{
    struct udp_socket *udp = container_of(connection, struct udp_socket, connection);

    (void) is_send;
    udp->error = error;
    wait_signal_later(&udp->wait);
}

static const struct datagram_connection_owner udp_owner = {received, failed};

static void udp_close(struct udp_socket *udp)
{
    if (udp->subject != NULL) {
        udp->subject = NULL;
        list_remove(&udp->resource.node);
        list_init(&udp->resource.node);
        datagram_connection_close(&udp->connection);
        buf_free(&udp->datagram);
    }
}

static void subject_ends(struct script_resource *resource)
{
    udp_close(container_of(resource, struct udp_socket, resource));
}

/* ---- objects */

static struct udp_socket *udp_check(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_rawgeti(L, 1, UDP_STATE);
    struct udp_socket *udp = lua_type(L, -1) == LUA_TUSERDATA ? lua_touserdata(L, -1) : NULL;
    bool is_one = udp != NULL && lua_objlen(L, -1) == sizeof(*udp) && udp->magic == UDP_MAGIC;
    lua_pop(L, 1);
    return is_one ? udp : NULL;
}

static void demand_own(lua_State *L, const struct script_thread *thread,
                       const struct udp_socket *udp)
{
    if (udp->subject != thread->subject) {
        luaL_error(L, "bad request");
    }
}

static int script_udp_collect(lua_State *L)
{
    struct udp_socket *udp = lua_touserdata(L, 1);

    udp_close(udp);
    udp->magic = 0;
    return 0;
}

static struct udp_socket *udp_make(lua_State *L)
{
    struct udp_socket *udp = udp_check(L);

    if (udp == NULL) {
        udp = lua_newuserdata(L, sizeof(*udp));
        memset(udp, 0, sizeof(*udp));
        udp->magic = UDP_MAGIC;
        udp->resource.release = subject_ends;
        list_init(&udp->resource.node);
        if (luaL_newmetatable(L, "script udp socket")) {
            lua_pushcfunction(L, script_udp_collect);
            lua_setfield(L, -2, "__gc");
        }
        lua_setmetatable(L, -2);
        lua_rawseti(L, 1, UDP_STATE);
    }
    return udp;
}

/* ---- setpeername */

/* Our own address: what bind said, or one that a peer of the unix kind can answer to. False: any.
 */
static bool find_local(lua_State *L, const struct addr *peer, struct addr *out)
{
    struct str text;

    if (peer->any.sa_family == AF_UNIX) {
        memset(out, 0, sizeof(*out));
        out->any.sa_family = AF_UNIX;
        out->len = sizeof(out->any.sa_family); /* the kernel chooses a name */
        return true;
    }
    lua_rawgeti(L, 1, UDP_BIND);
    text.data = lua_tolstring(L, -1, &text.len);
    bool is_bound = text.data != NULL && addr_parse_ip(text, out);
    lua_pop(L, 1);
    return is_bound;
}

static int open_connection(lua_State *L, struct script_thread *thread, struct udp_socket *udp,
                           const struct addr *peer)
{
    struct addr local;
    struct datagram_connection_options options = {.is_slow = true};
    const char *what = NULL;
    char text[ERROR_TEXT_MAX];
    struct socket_log words;

    if (find_local(L, peer, &local)) {
        options.bind = &local;
    }
    if (!datagram_connection_open(&udp->connection, peer, &options, &what)) {
        int error = errno;

        socket_log_begin(thread, udp->name, &words);
        log_crit(&words.log, error, "%.*s failed", (int) strlen(what), what);
        return script_fail(L, socket_error_text(error, text));
    }
    udp->connection.owner = &udp_owner;
    udp->has_one = udp->is_paused = false;
    udp->error = 0;
    udp->wait = (struct wait_point){0};
    udp->subject = thread->subject;
    list_push_back(&thread->subject->resources, &udp->resource.node);
    lua_pushinteger(L, 1);
    return 1;
}

static void name_peer(struct udp_socket *udp, const struct socket_target *target,
                      const struct addr *peer)
{
    struct writer writer = {udp->name, udp->name + SOCKET_NAME_MAX - 1};
    char text[ADDR_TEXT_MAX];

    writer_put(&writer, target->host);
    if (!target->is_unix) {
        size_t length = addr_format(peer, false, text);

        writer_printf(&writer, ":%u(%.*s)", target->port, (int) length, text);
    }
    *writer.at = '\0';
}

static int setpeername(lua_State *L, struct script_thread *thread)
{
    int count = lua_gettop(L);
    struct socket_target target = {.port = 0};
    struct addr peer;

    if (count != 2 && count != 3) {
        return luaL_error(
            L,
            "ngx.socket.udp setpeername: expecting 2 or 3 arguments (including the object), but seen %d",
            count);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    target.host = script_check_str(L, 2);
    target.is_unix = str_starts_nocase(target.host, STR("unix:"));
    if (count == 3 && !target.is_unix) {
        lua_Integer port = luaL_checkinteger(L, 3);

        if (port < 0 || port > 65535) {
            lua_pushnil(L);
            lua_pushfstring(L, "bad port number: %d", (int) port);
            return 2;
        }
        target.port = (unsigned) port;
    }
    struct udp_socket *udp = udp_make(L);
    if (udp->subject != NULL) {
        demand_own(L, thread, udp);
    }
    if (udp->is_reading || udp->is_resolving) {
        return script_fail(L, "socket busy");
    }
    socket_hold(L);
    udp_close(udp);
    udp->is_resolving = true;
    const char *reason = socket_target_find(L, thread, &target, &peer);
    udp->is_resolving = false;
    if (reason != NULL) {
        return script_fail(L, reason);
    }
    name_peer(udp, &target, &peer);
    return open_connection(L, thread, udp, &peer);
}

/* ---- send and receive */

static int fail_closed(lua_State *L, const struct script_thread *thread,
                       const struct udp_socket *udp, const char *what)
{
    struct socket_log words;

    socket_log_begin(thread, NULL, &words);
    log_error(&words.log, 0,
              "attempt to %s data on a closed socket: u:" SOCKET_POINTER ", c:" SOCKET_POINTER,
              what, (uintptr_t) udp, (uintptr_t) 0);
    return script_fail(L, "closed");
}

static int fail_error(lua_State *L, const struct script_thread *thread,
                      const struct udp_socket *udp, const char *what, int error)
{
    char text[ERROR_TEXT_MAX];
    struct socket_log words;

    socket_log_begin(thread, udp->name, &words);
    log_error(&words.log, error, "%s failed", what);
    return script_fail(L, socket_error_text(error, text));
}

static int send_one(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 2) {
        return luaL_error(L, "expecting 2 arguments (including the object), but got %d",
                          lua_gettop(L));
    }
    struct udp_socket *udp = udp_check(L);
    if (udp == NULL || udp->subject == NULL) {
        return fail_closed(L, thread, udp, "send");
    }
    demand_own(L, thread, udp);
    struct str bytes = script_check_pieces(L, 2);
    if (!datagram_connection_send(&udp->connection, bytes)) {
        return fail_error(L, thread, udp, "send()", errno);
    }
    lua_pushinteger(L, 1);
    return 1;
}

/* Until there is a datagram, or an error. MAY WAIT. */
static enum wait_result await_datagram(struct udp_socket *udp, uint64_t deadline_ms)
{
    enum wait_result result = WAIT_READY;

    udp->is_reading = true;
    udp->wait.is_signalled = false;
    while (!udp->has_one && udp->error == 0 && result == WAIT_READY) {
        if (udp->is_paused) {
            udp->is_paused = !datagram_connection_resume(&udp->connection);
            udp->error = udp->is_paused ? errno : 0;
            continue;
        }
        result = fiber_wait(&udp->wait, deadline_ms);
    }
    udp->is_reading = false;
    return result;
}

static int receive_one(lua_State *L, struct script_thread *thread)
{
    struct udp_socket *udp;
    struct socket_log words;
    int count = lua_gettop(L);

    if (count != 1 && count != 2) {
        return luaL_error(L, "expecting 1 or 2 arguments (including the object), but got %d",
                          count);
    }
    udp = udp_check(L);
    if (udp == NULL || udp->subject == NULL) {
        return fail_closed(L, thread, udp, "receive");
    }
    demand_own(L, thread, udp);
    if (udp->is_reading) {
        return script_fail(L, "socket busy");
    }
    lua_Number most = count == 2 && !lua_isnil(L, 2) ? luaL_checknumber(L, 2) : DATAGRAM_MOST;
    size_t size = most >= 0 && most < DATAGRAM_MOST ? (size_t) most : DATAGRAM_MOST;
    uint64_t timeout_ms = socket_timeout(L, UDP_TIMEOUT, socket_settings(thread)->read_timeout_ms);
    socket_hold(L);
    if (await_datagram(udp, clock_now.now_ms + timeout_ms) == WAIT_TIMED_OUT) {
        socket_log_begin(thread, udp->name, &words);
        log_error(&words.log, 0, "%slua udp socket read timed out", socket_log_prefix(thread));
        return script_fail(L, "timeout");
    }
    if (udp->has_one) {
        udp->has_one = false;
        script_push_str(L, str_head(buf_str(&udp->datagram), size));
        return 1;
    }
    int error = udp->error;
    udp->error = 0;
    return error != 0 ? fail_error(L, thread, udp, "recv()", error) : 0;
}

/* ---- the rest */

static int settimeout(lua_State *L, struct script_thread *thread)
{
    lua_Number ms;

    (void) thread;
    if (lua_gettop(L) != 2) {
        return luaL_error(
            L,
            "ngx.socket settimeout: expecting at least 2 arguments (including the object) but seen %d",
            lua_gettop(L));
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    ms = lua_tonumber(L, 2);
    lua_pushinteger(L, ms >= 0 && ms <= INT32_MAX ? (lua_Integer) ms : 0); /* 0: the usual */
    lua_rawseti(L, 1, UDP_TIMEOUT);
    return 0;
}

static int bind_to(lua_State *L, struct script_thread *thread)
{
    struct addr addr;

    (void) thread;
    if (lua_gettop(L) != 2) {
        return luaL_error(L, "expecting 2 arguments, but got %d", lua_gettop(L));
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    struct str text = script_check_str(L, 2);

    if (str_starts(text, STR("[")) || !addr_parse_ip(text, &addr)) {
        return script_fail(L, "bad address");
    }
    lua_pushvalue(L, 2);
    lua_rawseti(L, 1, UDP_BIND);
    lua_pushboolean(L, true);
    return 1;
}

static int close_it(lua_State *L, struct script_thread *thread)
{
    struct udp_socket *udp;

    if (lua_gettop(L) != 1) {
        return luaL_error(L, "expecting 1 argument (including the object) but seen %d",
                          lua_gettop(L));
    }
    udp = udp_check(L);
    if (udp == NULL || udp->subject == NULL) {
        return script_fail(L, "closed");
    }
    demand_own(L, thread, udp);
    if (udp->is_reading) {
        return script_fail(L, "socket busy");
    }
    udp_close(udp);
    lua_pushinteger(L, 1);
    return 1;
}

static const struct script_row udp_rows[] = {
    {"setpeername", setpeername, SCRIPT_WAITING, true},
    {"send", send_one, SCRIPT_WAITING, false},
    {"receive", receive_one, SCRIPT_WAITING, true},
    {"settimeout", settimeout, 0, false},
    {"bind", bind_to, 0, false},
    {"close", close_it, 0, false},
    {0},
};

static int udp_new(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 0) {
        return luaL_error(L, "expecting zero arguments, but got %d", lua_gettop(L));
    }
    script_demand(L, thread, SCRIPT_WAITING);
    lua_createtable(L, 3, 0);
    if (luaL_newmetatable(L, "script udp")) {
        lua_pushvalue(L, -1);
        lua_setfield(L, -2, "__index");
        script_add(L, udp_rows);
    }
    lua_setmetatable(L, -2);
    return 1;
}

static const struct script_row new_rows[] = {
    {"udp", udp_new, SCRIPT_WAITING | SCRIPT_ARGUMENTS_FIRST, false},
    {0},
};

void script_udp_add(lua_State *L)
{
    script_add(L, new_rows);
}
