/* The module script.tls: what ngx.ssl and similar modules (src/lua/library/ngx) have of functions
 * in C. Each gives nil and a reason when it fails. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stddef.h>

#include "base/text.h"
#include "lua/tls/native.h"
#include "lua/tls/tls.h"
#include "lua/vm/function.h"
#include "net/addr/addr.h"
#include "net/conn/conn.h"

#define HAS_REQUEST ((uint32_t) (SCRIPT_ALL & ~SCRIPT_INIT)) /* "no request found" elsewhere */

/* ---- the connection ---- */

static int server_name(lua_State *L, struct script_thread *thread)
{
    SSL *ssl = script_tls_ssl();
    const char *name = ssl == NULL ? NULL : SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

    if (ssl == NULL) {
        return script_fail(L, "bad request");
    }
    lua_pushstring(L, name); /* nil where the client sent none */
    return 1;
}

/* Pushes the raw bytes of an address and its family. */
static int push_addr(lua_State *L, const struct addr *addr)
{
    switch (addr->any.sa_family) {
    case AF_INET:
        lua_pushlstring(L, (const char *) &addr->v4.sin_addr, 4);
        lua_pushliteral(L, "inet");
        return 2;
    case AF_INET6:
        lua_pushlstring(L, (const char *) &addr->v6.sin6_addr, 16);
        lua_pushliteral(L, "inet6");
        return 2;
    case AF_UNIX:
        lua_pushstring(L,
                       addr->len > offsetof(struct sockaddr_un, sun_path) ? addr->un.sun_path : "");
        lua_pushliteral(L, "unix");
        return 2;
    default:
        return script_fail(L, "unknown address type");
    }
}

/* That of a client with TLS; NULL: there is none. */
static const struct conn *connection(void)
{
    struct script_subject *subject = script_running_subject();

    return script_tls_ssl() == NULL || subject == NULL || subject->kind->client == NULL
               ? NULL
               : subject->kind->client(subject);
}

/* Neither an address nor its family: the connection has no TLS. */
static int fail_addr(lua_State *L)
{
    lua_pushnil(L);
    lua_pushnil(L);
    lua_pushliteral(L, "bad request");
    return 3;
}

/* The address that the client has come to. */
static bool own_addr(struct addr *out)
{
    const struct conn *conn = connection();

    out->len = sizeof(out->un);
    return conn != NULL && getsockname(conn->source.fd, &out->any, &out->len) == 0;
}

static int raw_client_addr(lua_State *L, struct script_thread *thread)
{
    const struct conn *conn = connection();
    struct addr addr;

    if (conn == NULL) {
        return fail_addr(L);
    }
    conn_peer(conn, &addr);
    return push_addr(L, &addr);
}

static int raw_server_addr(lua_State *L, struct script_thread *thread)
{
    struct addr addr;

    return own_addr(&addr) ? push_addr(L, &addr) : fail_addr(L);
}

static int server_port(lua_State *L, struct script_thread *thread)
{
    struct addr addr;

    if (!own_addr(&addr)) {
        return script_fail(L, "bad request");
    }
    if (addr.any.sa_family == AF_UNIX) {
        return script_fail(L, "unix domain has no port");
    }
    lua_pushinteger(L, addr_port(&addr));
    return 1;
}

static int session_reused(lua_State *L, struct script_thread *thread)
{
    SSL *const *ssl = lua_topointer(L, 1);

    if (ssl == NULL || *ssl == NULL) {
        return script_fail(L, "bad ssl");
    }
    lua_pushboolean(L, SSL_session_reused(*ssl));
    return 1;
}

/* ---- the ClientHello ---- */

/* Of a script that looks at a ClientHello; else NULL. */
static SSL *hello_ssl(void)
{
    return script_runs_in(SCRIPT_CLIENT_HELLO) ? script_tls_ssl() : NULL;
}

static int hello_name(lua_State *L, struct script_thread *thread)
{
    SSL *ssl = hello_ssl();
    const unsigned char *at;
    size_t size;

    if (ssl == NULL) {
        return luaL_error(L, "API disabled in the current context");
    }
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &at, &size) != 1) {
        lua_pushnil(L);
        return 1;
    }
    /* RFC 6066, 3: a list of one name: its length, kind 0, length, bytes. */
    size_t len = size < 5 ? 0 : (size_t) (at[3] << 8 | at[4]);
    if (size < 5 || at[2] != TLSEXT_NAMETYPE_host_name || len == 0 || len > size - 5) {
        return script_fail(L, "bad SSL Client Hello Extension");
    }
    lua_pushlstring(L, (const char *) at + 5, len);
    return 1;
}

static int hello_extension(lua_State *L, struct script_thread *thread)
{
    SSL *ssl = hello_ssl();
    const unsigned char *at;
    size_t size;
    int type = luaL_checkint(L, 1);

    if (ssl == NULL) {
        return luaL_error(L, "API disabled in the current context");
    }
    if (type < 0 || SSL_client_hello_get0_ext(ssl, (unsigned) type, &at, &size) != 1) {
        lua_pushnil(L);
    } else {
        lua_pushlstring(L, (const char *) at, size);
    }
    return 1;
}

static int hello_extensions(lua_State *L, struct script_thread *thread)
{
    SSL *ssl = hello_ssl();
    int *types;
    size_t count;

    if (ssl == NULL) {
        return luaL_error(L, "API disabled in the current context");
    }
    if (SSL_client_hello_get1_extensions_present(ssl, &types, &count) != 1) {
        return script_fail(L, "failed to get extensions");
    }
    lua_createtable(L, (int) count, 0);
    for (size_t i = 0; i < count; i++) {
        lua_pushinteger(L, types[i]);
        lua_rawseti(L, -2, (int) i + 1);
    }
    OPENSSL_free(types);
    return 1;
}

static int hello_ciphers(lua_State *L, struct script_thread *thread)
{
    SSL *ssl = hello_ssl();
    const unsigned char *at;

    if (ssl == NULL) {
        return luaL_error(L, "API disabled in the current context");
    }
    size_t size = SSL_client_hello_get0_ciphers(ssl, &at);

    lua_createtable(L, (int) (size / 2), 0);
    for (size_t i = 0; i + 1 < size; i += 2) {
        lua_pushinteger(L, at[i] << 8 | at[i + 1]);
        lua_rawseti(L, -2, (int) (i / 2) + 1);
    }
    return 1;
}

/* The bits are SSL_OP_NO_… of the protocols that may not be spoken. */
static int set_protocols(lua_State *L, struct script_thread *thread)
{
    static const struct {
        const char *name;
        uint64_t refusal;
    } known[] = {{"SSLv2", 0},
                 {"SSLv3", SSL_OP_NO_SSLv3},
                 {"TLSv1", SSL_OP_NO_TLSv1},
                 {"TLSv1.1", SSL_OP_NO_TLSv1_1},
                 {"TLSv1.2", SSL_OP_NO_TLSv1_2},
                 {"TLSv1.3", SSL_OP_NO_TLSv1_3}};
    SSL *ssl = hello_ssl();
    uint64_t refused = SSL_OP_NO_SSL_MASK;

    luaL_checktype(L, 1, LUA_TTABLE);
    if (ssl == NULL) {
        return luaL_error(L, "API disabled in the current context");
    }
    for (int i = 1; i <= (int) lua_objlen(L, 1); i++) {
        lua_rawgeti(L, 1, i);
        struct str name = script_check_str(L, -1);
        size_t k = 0;

        while (k < sizeof(known) / sizeof(known[0]) && !str_is(name, known[k].name)) {
            k++;
        }
        if (k == sizeof(known) / sizeof(known[0])) {
            return script_fail(L, "invalid protocols failed");
        }
        refused &= ~known[k].refusal;
        lua_pop(L, 1);
    }
    SSL_clear_options(ssl, SSL_OP_NO_SSL_MASK);
    SSL_set_options(ssl, refused);
    SSL_set_min_proto_version(ssl, 0);
    SSL_set_max_proto_version(ssl, 0);
    lua_pushboolean(L, true);
    return 1;
}

/* ---- sessions ---- */

/* The identifier of the session that a script keeps or looks for; after the handshake, of the
 * connection's own. {0}: there is none. */
static struct str session_id_of(const struct script_handshake *handshake, const SSL *ssl)
{
    const SSL_SESSION *session = handshake != NULL ? handshake->session : NULL;
    unsigned size = 0;

    if (session == NULL && handshake != NULL && handshake->session_id.len != 0) {
        return handshake->session_id;
    }
    if (handshake == NULL) {
        session = SSL_get_session(ssl);
    }
    const unsigned char *id = session == NULL ? NULL : SSL_SESSION_get_id(session, &size);
    return (struct str){(const char *) id, size};
}

static int session_id(lua_State *L, struct script_thread *thread)
{
    const SSL *ssl = script_tls_ssl();
    char text[2 * SSL_MAX_SSL_SESSION_ID_LENGTH];

    if (ssl == NULL) {
        return script_fail(L, "bad request");
    }
    struct str id = session_id_of(script_tls_handshake(), ssl);

    if (id.len == 0) {
        return script_fail(L, "uninitialized session id len in lua context");
    }
    id.len = id.len < SSL_MAX_SSL_SESSION_ID_LENGTH ? id.len : SSL_MAX_SSL_SESSION_ID_LENGTH;
    hex_encode(text, id.data, id.len);
    lua_pushlstring(L, text, 2 * id.len);
    return 1;
}

static int serialized_session(lua_State *L, struct script_thread *thread)
{
    const struct script_handshake *handshake = script_tls_handshake();
    const SSL *ssl = script_tls_ssl();

    if (ssl == NULL) {
        return script_fail(L, "bad request");
    }
    SSL_SESSION *session = handshake != NULL ? handshake->session : SSL_get_session(ssl);
    if (session == NULL) {
        return script_fail(L, "bad session in lua context");
    }
    int size = i2d_SSL_SESSION(session, NULL);

    if (size <= 0) {
        return script_fail(L, "i2d_SSL_SESSION() failed");
    }
    unsigned char *at = lua_newuserdata(L, (size_t) size);
    lua_pushlightuserdata(L, at);
    i2d_SSL_SESSION(session, &at);
    lua_pushlstring(L, lua_touserdata(L, -1), (size_t) size);
    return 1;
}

static int set_serialized_session(lua_State *L, struct script_thread *thread)
{
    struct script_handshake *handshake = script_tls_handshake();
    struct str text = script_check_str(L, 1);
    const unsigned char *at = (const unsigned char *) text.data;

    if (script_tls_ssl() == NULL) {
        return script_fail(L, "bad request");
    }
    SSL_SESSION *session =
        text.len > INT32_MAX ? NULL : d2i_SSL_SESSION(NULL, &at, (long) text.len);

    if (session == NULL) {
        ERR_clear_error();
        return script_fail(L, "failed to de-serialize session");
    }
    if (handshake == NULL || thread->phase != SCRIPT_SESSION_FETCH) {
        SSL_SESSION_free(session);
        return script_fail(L, "API disabled in the current context");
    }
    SSL_SESSION_free(handshake->session);
    handshake->session = session;
    lua_pushboolean(L, true);
    return 1;
}

static const struct script_row rows[] = {
    {"server_name", server_name, HAS_REQUEST, false},
    {"raw_client_addr", raw_client_addr, HAS_REQUEST, false},
    {"raw_server_addr", raw_server_addr, HAS_REQUEST, false},
    {"server_port", server_port, HAS_REQUEST, false},
    {"session_reused", session_reused, 0, false},
    {"hello_name", hello_name, HAS_REQUEST, false},
    {"hello_extension", hello_extension, HAS_REQUEST, false},
    {"hello_extensions", hello_extensions, HAS_REQUEST, false},
    {"hello_ciphers", hello_ciphers, HAS_REQUEST, false},
    {"set_protocols", set_protocols, HAS_REQUEST, false},
    {"session_id", session_id, HAS_REQUEST, false},
    {"serialized_session", serialized_session, HAS_REQUEST, false},
    {"set_serialized_session", set_serialized_session, HAS_REQUEST, false},
    {0},
};

static int open_native(lua_State *L)
{
    lua_newtable(L);
    script_add(L, rows);
    script_ocsp_add(L);
    return 1;
}

void script_tls_add(lua_State *L)
{
    script_preload(L, "script.tls", open_native);
}
