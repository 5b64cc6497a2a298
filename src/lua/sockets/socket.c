/* Socket objects: made, found in their tables, let go; what goes wrong with them. */
#include "lua/sockets/socket.h"

#include <ctype.h>
#include <string.h>

#include "base/clock.h"
#include "lua/sockets/pool.h"
#include "net/tls/tls.h"

static const struct script_settings usual_settings = {
    .connect_timeout_ms = 60000,
    .send_timeout_ms = 60000,
    .read_timeout_ms = 60000,
    .keepalive_timeout_ms = 60000,
    .buffer_size = 4096,
    .pool_size = 30,
    .log_errors = true,
};

const struct script_settings *socket_settings(const struct script_thread *thread)
{
    return thread->subject->settings != NULL ? thread->subject->settings : &usual_settings;
}

/* ---- a conn as a source ---- */

#define BUFFER_LEAST 1024
#define BUFFER_MOST 65536u

static struct str conn_source_input(struct script_source *source)
{
    return conn_input(source->conn);
}

static void conn_source_consume(struct script_source *source, size_t count)
{
    struct conn *conn = source->conn;

    conn_consume(conn, count);
    conn_input_release(conn);
}

static enum script_got conn_source_more(struct script_source *source, size_t wanted,
                                        uint64_t timeout_ms)
{
    struct script_conn_source *own = container_of(source, struct script_conn_source, source);
    struct conn *conn = source->conn;
    size_t first = wanted > own->buffer_size ? wanted : own->buffer_size;

    first = first < BUFFER_LEAST ? BUFFER_LEAST : first > BUFFER_MOST ? BUFFER_MOST : first;
    for (;;) {
        if (conn_fill(conn, first, BUFFER_MOST)) {
            return SCRIPT_GOT_BYTES;
        }
        if (conn->is_broken) {
            source->error = socket_error_text(conn->error, own->error);
            return SCRIPT_GOT_FAILURE;
        }
        if (conn->is_input_closed) {
            return SCRIPT_GOT_END;
        }
        switch (conn_wait_input(conn, clock_now.now_ms + timeout_ms)) {
        case WAIT_TIMED_OUT:
            return SCRIPT_GOT_NOTHING;
        case WAIT_CANCELLED:
            return SCRIPT_GOT_CANCELLED;
        case WAIT_READY:
            break;
        }
    }
}

void script_conn_source_init(struct script_conn_source *source, struct conn *conn,
                             size_t buffer_size)
{
    *source = (struct script_conn_source){
        .source = {.input = conn_source_input,
                   .consume = conn_source_consume,
                   .more = conn_source_more,
                   .conn = conn},
        .buffer_size = buffer_size,
    };
}

/* ---- objects ---- */

/* The socket in the table at index, or NULL. */
static struct script_socket *socket_in(lua_State *L, int index)
{
    lua_rawgeti(L, index, SOCKET_STATE);
    struct script_socket *socket = lua_type(L, -1) == LUA_TUSERDATA ? lua_touserdata(L, -1) : NULL;
    bool is_one =
        socket != NULL && lua_objlen(L, -1) >= sizeof(*socket) && socket->magic == SOCKET_MAGIC;
    lua_pop(L, 1);
    return is_one ? socket : NULL;
}

struct script_socket *socket_check(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    return socket_in(L, 1);
}

void socket_hold(lua_State *L)
{
    luaL_checkstack(L, 1, NULL);
    lua_rawgeti(L, 1, SOCKET_STATE);
}

struct script_socket *socket_check_own(lua_State *L)
{
    struct script_socket *socket = socket_check(L);

    if (socket != NULL && socket->is_borrowed) {
        luaL_argerror(L, 1, "a socket of ngx.socket expected");
    }
    return socket;
}

static int script_socket_collect(lua_State *L)
{
    struct script_socket *socket = lua_touserdata(L, 1);

    socket_close(socket);
    socket->magic = 0;
    return 0;
}

static void subject_ends(struct script_resource *resource)
{
    struct script_socket *socket = container_of(resource, struct script_socket, resource);

    socket_close(socket);
    socket->subject = NULL;
}

struct script_socket *socket_new(lua_State *L)
{
    struct script_socket *socket = lua_newuserdata(L, sizeof(*socket));

    memset(socket, 0, sizeof(*socket));
    socket->magic = SOCKET_MAGIC;
    list_init(&socket->resource.node);
    socket->resource.release = subject_ends;
    if (luaL_newmetatable(L, "script socket")) {
        lua_pushcfunction(L, script_socket_collect);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return socket;
}

void socket_join(struct script_socket *socket, struct script_subject *subject)
{
    if (socket->subject != subject) {
        socket->subject = subject;
        list_push_back(&subject->resources, &socket->resource.node);
    }
}

struct script_socket *socket_make(lua_State *L, struct script_thread *thread)
{
    struct script_socket *socket = socket_check_own(L);

    if (socket == NULL) {
        socket = socket_new(L);
        lua_rawseti(L, 1, SOCKET_STATE);
    }
    if (socket->subject != NULL) {
        socket_demand_own(L, thread, socket);
    }
    socket_join(socket, thread->subject);
    return socket;
}

void socket_demand_own(lua_State *L, const struct script_thread *thread,
                       const struct script_socket *socket)
{
    if (socket->subject != thread->subject) {
        luaL_error(L, "bad request");
    }
}

void socket_close(struct script_socket *socket)
{
    struct conn *conn = socket->conn;

    list_remove(&socket->resource.node);
    list_init(&socket->resource.node);
    socket->subject = NULL;
    socket->source = NULL;
    socket->conn = NULL;
    socket->stage = SOCKET_IDLE;
    buf_free(&socket->gathered);
    tls_store_free(socket->store);
    socket->store = NULL;
    if (socket->pool != NULL) {
        socket_pool_leave(socket->pool);
        socket->pool = NULL;
    }
    if (conn != NULL && !socket->is_borrowed) {
        conn_close(conn);
    }
}

void socket_abandon(struct script_socket *socket)
{
    socket->has_read_last = socket->has_sent_last = true;
    if (!socket->is_reading && !socket->is_writing) {
        socket_close(socket);
    }
}

/* ---- what goes wrong ---- */

const char *socket_log_prefix(const struct script_thread *thread)
{
    return script_vm_is_stream(thread->subject->vm) ? "stream " : "";
}

/* Behind the message: whom the socket talks to; then what the subject says of itself. */
static void script_socket_describe(const struct log *log, struct writer *out)
{
    const struct socket_log *words = log->subject;

    if (words->name != NULL && words->name[0] != '\0') {
        log_member(out, "upstream");
        writer_put(out, str_of(words->name));
    }
    if (words->base->describe != NULL) {
        words->base->describe(words->base, out);
    }
}

void socket_log_begin(const struct script_thread *thread, const char *name, struct socket_log *out)
{
    out->base = thread->subject->log;
    out->name = name;
    out->log = *out->base;
    out->log.describe = script_socket_describe;
    out->log.subject = out;
    if (!socket_settings(thread)->log_errors) {
        out->log.level = LOG_STDERR;
    }
}

const char *socket_error_text(int error, char *room)
{
    const char *text = strerror(error);
    size_t i = 0;

    for (; text[i] != '\0' && i < ERROR_TEXT_MAX - 1; i++) {
        room[i] = (char) tolower((unsigned char) text[i]);
    }
    room[i] = '\0';
    return room;
}

uint64_t socket_timeout(lua_State *L, int field, uint64_t usual)
{
    lua_rawgeti(L, 1, field);
    lua_Integer own = lua_tointeger(L, -1);
    lua_pop(L, 1);
    return own > 0 ? (uint64_t) own : usual;
}

bool socket_is_read(const struct script_socket *socket)
{
    return socket->is_reading ||
           (socket->is_borrowed && socket->conn != NULL && socket->conn->input_wait.waiter != NULL);
}

bool socket_is_written(const struct script_socket *socket)
{
    return socket->is_writing || (socket->is_borrowed && socket->conn != NULL &&
                                  socket->conn->output_wait.waiter != NULL);
}

bool socket_is_shaking(const struct script_socket *socket)
{
    return socket->is_shaking || (socket->source != NULL && socket->source->is_shaking);
}

int socket_fail_busy(lua_State *L, const struct script_socket *socket)
{
    if (socket->stage == SOCKET_CONNECTING || socket->stage == SOCKET_RESOLVING ||
        socket->is_shaking) {
        return script_fail(L, "socket busy connecting");
    }
    if (socket->is_reading) {
        return script_fail(L, "socket busy reading");
    }
    if (socket->is_writing) {
        return script_fail(L, "socket busy writing");
    }
    return 0;
}
