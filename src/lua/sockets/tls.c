/* TLS on sockets. */
#include "net/tls/tls.h"

#include "base/clock.h"
#include "lua/sockets/pool.h"
#include "lua/sockets/socket.h"
#include "lua/vm/library.h"
#include "lua/vm/names.h"
#include "server/generation.h"

SCRIPT_TEXT(script_socket_text, "src/lua/library/socket.lua")

#define TYPE_CDATA 10 /* of LuaJIT: lua_type gives it */

/* ---- the context ---- */

/* That of places which say nothing; lives as long as the process. */
static struct tls_context *usual_context(const struct log *log)
{
    static struct tls_context *context;
    static struct arena arena;
    struct tls_settings settings = {
        .is_client = true,
        .protocols = TLS_1_0 | TLS_1_1 | TLS_1_2 | TLS_1_3,
        .ciphers = STR("DEFAULT"),
        .verify_depth = 1,
    };
    struct str error;

    if (context == NULL) {
        arena_init(&arena);
        context = tls_context_new(&settings, &arena, log, &error);
        if (context == NULL) {
            log_error(log, 0, "%.*s", STR_ARG(error));
            arena_free(&arena);
        }
    }
    return context;
}

static struct tls_context *context_of(const struct script_thread *thread)
{
    const struct script_settings *settings = socket_settings(thread);

    return settings->tls.context != NULL ? settings->tls.context
                                         : usual_context(thread->subject->log);
}

/* ---- objects of OpenSSL, as Lua has them ---- */

void script_ffi_session_free(void *session);

void script_ffi_session_free(void *session)
{
    tls_session_free(session);
}

static int collect_session(lua_State *L)
{
    tls_session_free(*(void **) lua_touserdata(L, 1));
    return 0;
}

#define SESSION_TYPE "script tls session"

/* A pointer that came as cdata, which socket.lua has looked at; NULL: none. */
static void *pointer_at(lua_State *L, int index)
{
    return lua_type(L, index) == TYPE_CDATA ? *(void *const *) lua_topointer(L, index) : NULL;
}

/* A session: cdata, or a userdata that push_session has made. An error for another userdata. */
static void *session_at(lua_State *L, int index)
{
    return lua_type(L, index) == LUA_TUSERDATA ? *(void **) luaL_checkudata(L, index, SESSION_TYPE)
                                               : pointer_at(L, index);
}

/* Takes the reference. For stream a userdata; else a light one, of which socket.lua makes cdata. */
static int push_session(lua_State *L, const struct script_thread *thread, void *session)
{
    if (!script_vm_is_stream(thread->subject->vm)) {
        lua_pushlightuserdata(L, session);
        return 1;
    }
    *(void **) lua_newuserdata(L, sizeof(session)) = session;
    if (luaL_newmetatable(L, SESSION_TYPE)) {
        lua_pushcfunction(L, collect_session);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return 1;
}

/* ---- the handshake ---- */

/* What sslhandshake is asked for. */
struct handshake {
    struct tls_client_options options;
    struct tls_client_objects objects;
    bool wants_session; /* it is to be given back */
    bool verifies;
};

static void read_handshake(lua_State *L, const struct script_socket *socket, struct handshake *out)
{
    *out = (struct handshake){.wants_session = !(lua_isboolean(L, 2) && !lua_toboolean(L, 2))};
    out->objects.session = session_at(L, 2);
    out->objects.asks_status = lua_toboolean(L, 5);
    out->objects.store = socket->store;
    lua_rawgeti(L, 1, SOCKET_CERTIFICATE);
    lua_rawgeti(L, 1, SOCKET_KEY_OF_CERTIFICATE);
    out->objects.chain = pointer_at(L, -2);
    out->objects.key = pointer_at(L, -1);
    lua_pop(L, 2);
    if (!lua_isnoneornil(L, 3) && !(lua_isboolean(L, 3) && !lua_toboolean(L, 3))) {
        out->options.name = script_check_str(L, 3);
        out->options.sends_name = true;
    }
    out->verifies = lua_toboolean(L, 4);
    out->options.objects = &out->objects;
}

/* All that makes the link what it is, who was verified included. */
static uint64_t identity_of(struct tls_context *context, const struct handshake *handshake)
{
    struct tls_client_options options = handshake->options;

    options.verifies = handshake->verifies;
    return tls_client_identity(context, &options);
}

static int fail_handshake(lua_State *L, struct script_socket *socket, const char *reason)
{
    socket_close(socket);
    return script_fail(L, reason);
}

/* Finds who is there: 0, or what is to be returned. */
static int verify(lua_State *L, struct script_thread *thread, struct script_socket *socket,
                  const struct handshake *handshake)
{
    struct socket_log words;
    const char *reason;
    long code;

    socket_log_begin(thread, socket->name, &words);
    switch (tls_peer_trust(socket->conn, handshake->options.name, &code, &reason)) {
    case TLS_TRUSTED:
        return 0;
    case TLS_UNTRUSTED:
        log_error(&words.log, 0, "%slua ssl certificate verify error: (%ld: %s)",
                  socket_log_prefix(thread), code, reason);
        lua_pushfstring(L, "%d: %s", (int) code, reason);
        socket_close(socket);
        lua_pushnil(L);
        lua_insert(L, -2);
        return 2;
    case TLS_OTHER_NAME:
        break;
    }
    log_error(&words.log, 0, "%slua ssl certificate does not match host \"%.*s\"",
              socket_log_prefix(thread), STR_ARG(handshake->options.name));
    return fail_handshake(L, socket, "certificate host mismatch");
}

static int give_session(lua_State *L, const struct script_thread *thread,
                        const struct script_socket *socket, const struct handshake *handshake)
{
    void *session = handshake->wants_session ? tls_session(socket->conn) : NULL;

    if (session == NULL) {
        lua_pushboolean(L, true);
        return 1;
    }
    return push_session(L, thread, session);
}

uint64_t script_socket_connect_timeout(lua_State *L, const struct script_thread *thread)
{
    return socket_timeout(L, SOCKET_CONNECT_TIMEOUT, socket_settings(thread)->connect_timeout_ms);
}

/* MAY WAIT. */
static int shake_hands(lua_State *L, struct script_thread *thread, struct script_socket *socket,
                       struct tls_context *context, struct handshake *handshake)
{
    struct socket_log words;
    uint64_t timeout_ms = script_socket_connect_timeout(L, thread);
    const struct tls_connecting connecting = {
        .context = context,
        .options = &handshake->options,
        .deadline_ms = clock_now.now_ms + timeout_ms,
        .log = &words.log,
        .tells_timeout = true,
    };
    int error = 0;

    socket_log_begin(thread, socket->name, &words);
    conn_set_nodelay(socket->conn, true);
    socket->is_shaking = true;
    enum tls_connected result = tls_connect(socket->conn, &connecting, &error);
    socket->is_shaking = false;
    switch (result) {
    case TLS_CONNECTED:
        break;
    case TLS_CONNECT_TIMED_OUT:
        return fail_handshake(L, socket, "timeout");
    case TLS_CONNECT_CANCELLED:
        return fail_handshake(L, socket, "aborted");
    default:
        return fail_handshake(L, socket, "handshake failed");
    }
    int failed = handshake->verifies ? verify(L, thread, socket, handshake) : 0;
    if (failed != 0) {
        return failed;
    }
    socket->tls_identity = identity_of(context, handshake);
    return give_session(L, thread, socket, handshake);
}

/* A fresh connection in place of one that was kept and is somebody else's for the peer. 0, or what
 * is to be returned. MAY WAIT. */
static int reconnect(lua_State *L, struct script_thread *thread, struct script_socket *socket)
{
    struct socket_reaching reaching = {.timeout_ms = script_socket_connect_timeout(L, thread)};
    char text[ERROR_TEXT_MAX];

    conn_close(socket->conn);
    socket->conn = NULL;
    socket->source = NULL;
    socket->stage = SOCKET_CONNECTING;
    enum upstream_connect_result result = socket_reach(thread, socket, &reaching);
    if (result != UPSTREAM_CONNECT_OK) {
        return fail_handshake(L, socket,
                              result == UPSTREAM_CONNECT_TIMED_OUT
                                  ? "timeout"
                                  : socket_error_text(reaching.error, text));
    }
    socket_attach(socket, &(struct idle_conn){.conn = reaching.conn},
                  socket_settings(thread)->buffer_size);
    return 0;
}

/* What the pointers of setclientcert point to stays while this function waits, also when another
 * thread sets others. */
static void hold_certificate(lua_State *L)
{
    luaL_checkstack(L, 2, NULL);
    lua_rawgeti(L, 1, SOCKET_CERTIFICATE_OBJECTS);
    lua_rawgeti(L, 1, SOCKET_CERTIFICATE_OBJECTS + 1);
}

static int handshake(lua_State *L, struct script_thread *thread)
{
    struct script_socket *socket = socket_check_own(L);
    struct handshake handshake;

    if (socket == NULL) {
        return luaL_error(L, "socket is never created nor connected");
    }
    if (socket->conn == NULL || socket->has_read_last || socket->has_sent_last) {
        return script_fail(L, "closed");
    }
    socket_demand_own(L, thread, socket);
    int busy = socket_fail_busy(L, socket);
    if (busy != 0) {
        return busy;
    }
    struct tls_context *context = context_of(thread);
    if (context == NULL) {
        return script_fail(L, "no context");
    }
    read_handshake(L, socket, &handshake);
    socket_hold(L);
    hold_certificate(L);
    if (conn_is_tls(socket->conn)) {
        if (socket->tls_identity == identity_of(context, &handshake)) {
            return give_session(L, thread, socket, &handshake);
        }
        if (socket->reused == 0 || socket->is_touched) {
            int failed = handshake.verifies ? verify(L, thread, socket, &handshake) : 0;

            return failed != 0 ? failed : give_session(L, thread, socket, &handshake);
        }
        int failed = reconnect(L, thread, socket);
        if (failed != 0) {
            return failed;
        }
    }
    return shake_hands(L, thread, socket, context, &handshake);
}

/* ---- the rest ---- */

/* The socket at index 1 if it is connected; else NULL, and nil and "closed" are pushed. */
static struct script_socket *check_open(lua_State *L, const struct script_thread *thread)
{
    struct script_socket *socket = socket_check_own(L);

    if (socket == NULL || socket->conn == NULL || socket->stage != SOCKET_OPEN) {
        script_fail(L, "closed");
        return NULL;
    }
    socket_demand_own(L, thread, socket);
    return socket;
}

static int session(lua_State *L, struct script_thread *thread)
{
    const struct script_socket *socket = check_open(L, thread);

    if (socket == NULL) {
        return 2;
    }
    void *made = tls_session(socket->conn);
    if (made == NULL) {
        return script_fail(L, "not an SSL connection");
    }
    if (!tls_session_is_resumable(made)) {
        tls_session_free(made);
        return script_fail(L, "not resumable");
    }
    return push_session(L, thread, made);
}

static int push_pointer(lua_State *L, void *pointer)
{
    if (pointer == NULL) {
        return script_fail(L, "not an SSL connection");
    }
    lua_pushlightuserdata(L, pointer);
    return 1;
}

static int pointer(lua_State *L, struct script_thread *thread)
{
    const struct script_socket *socket = check_open(L, thread);

    return socket == NULL ? 2 : push_pointer(L, tls_ssl(socket->conn));
}

static int context(lua_State *L, struct script_thread *thread)
{
    const struct script_socket *socket = check_open(L, thread);

    return socket == NULL ? 2 : push_pointer(L, tls_ssl_context(socket->conn));
}

/* Pointers, and what keeps them alive. */
static int certificate(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 5);
    for (int field = SOCKET_CERTIFICATE_OBJECTS + 1; field >= SOCKET_CERTIFICATE; field--) {
        lua_rawseti(L, 1, field);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* NULL, or why not. */
static const char *use_store(struct script_socket *socket, void *store)
{
    if (socket->conn == NULL) {
        return "closed";
    }
    if (socket->is_shaking) {
        return "socket busy connecting";
    }
    if (conn_is_tls(socket->conn)) {
        return "ssl handshake already done; trusted store cannot be changed on an established TLS connection";
    }
    tls_store_free(socket->store);
    socket->store = tls_store_hold(store);
    return NULL;
}

static int script_tls_store(lua_State *L, struct script_thread *thread)
{
    struct script_socket *socket = check_open(L, thread);

    if (socket == NULL) {
        return 2;
    }
    const char *reason = use_store(socket, pointer_at(L, 2));
    if (reason != NULL) {
        return script_fail(L, reason);
    }
    lua_pushboolean(L, true);
    return 1;
}

/* The same for scripts that call it by its name in C. */
int ngx_http_lua_ffi_socket_tcp_settrustedstore(void *request, struct script_socket *socket,
                                                void *store, const char **reason);

int ngx_http_lua_ffi_socket_tcp_settrustedstore(void *request, struct script_socket *socket,
                                                void *store, const char **reason)
{
    (void) request;
    *reason = socket == NULL || socket->magic != SOCKET_MAGIC ? "closed" : use_store(socket, store);
    return *reason == NULL ? 0 : -1;
}

/* For lua-resty-openssl: 0, or -1 where there is no TLS. */
static int socket_ssl(const struct script_socket *socket, void **out)
{
    bool is_open = socket != NULL && socket->magic == SOCKET_MAGIC && socket->conn != NULL;

    *out = is_open ? tls_ssl(socket->conn) : NULL;
    return *out != NULL ? 0 : -1;
}

static int socket_ssl_context(const struct script_socket *socket, void **out)
{
    bool is_open = socket != NULL && socket->magic == SOCKET_MAGIC && socket->conn != NULL;

    *out = is_open ? tls_ssl_context(socket->conn) : NULL;
    return *out != NULL ? 0 : -1;
}

SCRIPT_OPENSSL_NAME(socket_ssl, get_socket_ssl);
SCRIPT_OPENSSL_NAME(socket_ssl_context, get_socket_ssl_ctx);

static const struct script_row given_rows[] = {
    {"handshake", handshake, SCRIPT_WAITING, true},
    {"session", session, 0, false},
    {"pointer", pointer, 0, false},
    {"context", context, 0, false},
    {"certificate", certificate, 0, false},
    {"store", script_tls_store, 0, false},
    {0},
};

void socket_tls_add(lua_State *L)
{
    script_text_load(L, "socket", SCRIPT_TEXT_OF(script_socket_text));
    lua_call(L, 0, 1);
    lua_pushvalue(L, -2);
    lua_newtable(L);
    script_add(L, given_rows);
    lua_pushboolean(L, !script_vm_is_stream(script_vm_of(L)));
    lua_call(L, 3, 0);
}
