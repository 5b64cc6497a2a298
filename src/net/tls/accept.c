/* The server's side of the handshake: tells TLS from plain HTTP, chooses the server by name,
 * ALPN. */
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/clock.h"
#include "net/conn/private.h"
#include "net/tls/private.h"

#define FIRST_BYTES 4096 /* size of the first read; ClientHellos are usually shorter */
#define NAME_MAX_LENGTH 255

static struct tls *tls_of_ssl(const SSL *ssl)
{
    return SSL_get_ex_data(ssl, tls_index);
}

/* ---- SNI ---- */

/* Reads the host name of a server_name extension (RFC 6066, 3), in lower case. False: malformed. */
static bool read_server_name(const unsigned char *at, size_t size, char *name, size_t *len)
{
    const unsigned char *end = at + size;

    *len = 0;
    if (size < 2 || (size_t) (at[0] << 8 | at[1]) != size - 2) {
        return false;
    }
    at += 2;
    while (end - at >= 3) {
        size_t length = (size_t) (at[1] << 8 | at[2]);
        unsigned type = at[0];

        at += 3;
        if (length > (size_t) (end - at)) {
            return false;
        }
        if (type == TLSEXT_NAMETYPE_host_name) {
            if (length > NAME_MAX_LENGTH) {
                return false;
            }
            for (size_t i = 0; i < length; i++) {
                if (at[i] <= ' ' || at[i] == '/' || at[i] == 0x7f) {
                    return false; /* file names may be built from it */
                }
                name[i] = (char) ascii_lower(at[i]);
            }
            *len = length;
            return true;
        }
        at += length;
    }
    return at == end;
}

/*
 * Continues the connection with another server's context. SSL_set_SSL_CTX changes certificates,
 * ciphers, authorities and callbacks; this function sets the other settings of the chosen server.
 * README.md lists those that remain the default server's.
 */
static bool follow_context(struct tls *tls, struct tls_context *context)
{
    SSL *ssl = tls->ssl;
    SSL_CTX *ctx = context->ctx;

    tls->context = context;
    SSL_set_SSL_CTX(ssl, ctx);
    SSL_set_verify(ssl, SSL_CTX_get_verify_mode(ctx), SSL_CTX_get_verify_callback(ctx));
    SSL_set_verify_depth(ssl, SSL_CTX_get_verify_depth(ctx));
    SSL_clear_options(ssl, SSL_get_options(ssl) & ~SSL_CTX_get_options(ctx));
    SSL_set_options(ssl, SSL_CTX_get_options(ctx));
    SSL_set_min_proto_version(ssl, (int) SSL_CTX_get_min_proto_version(ctx));
    SSL_set_max_proto_version(ssl, (int) SSL_CTX_get_max_proto_version(ctx));
    /* Tickets may not offer early data unless SSL_read_early_data was used from the first byte. */
    SSL_set_max_early_data(ssl, tls->reads_early ? SSL_CTX_get_max_early_data(ctx) : 0);
    return tls->way == NULL || tls->way->follow(tls);
}

/* Calls a hook, if there is one. MAY WAIT. */
static bool tls_accept_ask(struct tls *tls, bool (*hook)(struct conn *, struct ssl_st *, void *))
{
    if (hook == NULL) {
        return true;
    }
    if (!tls_ask_begin(tls)) {
        return false;
    }
    bool is_good = hook(tls->conn, tls->ssl, tls->hooks->arg);

    return tls_ask_end(tls) && is_good;
}

/* ---- challenges of ACME (RFC 8737) ---- */

static tls_challenge_find *find_challenge;

void tls_answer_challenges(tls_challenge_find *find)
{
    find_challenge = find;
}

bool tls_is_challenge(const struct conn *conn)
{
    return conn_is_tls(conn) && tls_of(conn)->is_challenge;
}

/* Does the client offer acme-tls/1 and no other protocol? */
static bool offers_acme(SSL *ssl)
{
    static const unsigned char wanted[] = "\0\x0b\x0a"
                                          "acme-tls/1";
    const unsigned char *extension;
    size_t size;

    return SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation,
                                     &extension, &size) == 1 &&
           size == sizeof(wanted) - 1 && memcmp(extension, wanted, size) == 0;
}

/* Answers an ACME challenge. The context of the address stays in use; the server of this name is
 * not involved, not even to refuse. */
static bool answer_challenge(struct tls *tls, struct str name)
{
    struct str certificate, key;
    struct arena arena;

    if (find_challenge == NULL || tls->way != NULL || name.len == 0 || !offers_acme(tls->ssl)) {
        return false;
    }
    arena_init(&arena);
    tls->is_challenge = find_challenge(name, &arena, &certificate, &key) &&
                        tls_use_certificate(tls->conn, certificate, key, NULL, NULL);
    arena_free(&arena);
    if (tls->is_challenge) {
        tls->has_selected = true;
        tls->alpn_offer = STR("\x0a"
                              "acme-tls/1");
        SSL_set_verify(tls->ssl, SSL_VERIFY_NONE, NULL);
    }
    return tls->is_challenge;
}

static int on_client_hello(SSL *ssl, int *alert, void *arg)
{
    struct tls *tls = tls_of_ssl(ssl);
    const unsigned char *extension;
    size_t size;
    char text[NAME_MAX_LENGTH + 1];
    struct str name = {text, 0};

    if (tls == NULL || tls->selector == NULL || tls->has_selected) {
        return SSL_CLIENT_HELLO_SUCCESS; /* the second one, after HelloRetryRequest */
    }
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &extension, &size) == 1 &&
        !read_server_name(extension, size, text, &name.len)) {
        *alert = SSL_AD_DECODE_ERROR;
        return SSL_CLIENT_HELLO_ERROR;
    }
    if (answer_challenge(tls, name)) {
        return SSL_CLIENT_HELLO_SUCCESS;
    }
    if (tls->hooks != NULL && !tls_accept_ask(tls, tls->hooks->hello)) {
        *alert = SSL_AD_INTERNAL_ERROR; /* the same alert as when no certificate can be chosen */
        return SSL_CLIENT_HELLO_ERROR;
    }
    struct tls_context *context =
        tls->selector->select(tls->conn, name, &tls->alpn_offer, tls->selector->arg);
    if (context == NULL || context->settings.rejects_handshake) {
        tls->is_rejected = true;
        *alert = SSL_AD_UNRECOGNIZED_NAME;
        return SSL_CLIENT_HELLO_ERROR;
    }
    tls->has_selected = true;
    if (tls->way != NULL && !tls->way->prepare(context->ctx)) {
        return SSL_CLIENT_HELLO_ERROR;
    }
    bool is_good = context != tls->context ? follow_context(tls, context)
                                           : tls->way == NULL || tls->way->follow(tls);
    return is_good ? SSL_CLIENT_HELLO_SUCCESS : SSL_CLIENT_HELLO_ERROR;
}

/* Confirms to the client that the name was used, which also stores it in the session. */
static int on_server_name(SSL *ssl, int *alert, void *arg)
{
    return SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) == NULL ? SSL_TLSEXT_ERR_NOACK
                                                                      : SSL_TLSEXT_ERR_OK;
}

/* ---- ALPN (RFC 7301) ---- */

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                   const unsigned char *in, unsigned in_len, void *arg)
{
    struct tls *tls = tls_of_ssl(ssl);

    if (tls == NULL || tls->alpn_offer.len == 0) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    if (SSL_select_next_proto((unsigned char **) (uintptr_t) out, out_len,
                              (const unsigned char *) tls->alpn_offer.data,
                              (unsigned) tls->alpn_offer.len, in,
                              in_len) != OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    return SSL_TLSEXT_ERR_OK;
}

/* ---- certificates by variable ---- */

static int on_certificate(SSL *ssl, void *arg)
{
    struct tls *tls = tls_of_ssl(ssl);

    if (tls == NULL || tls->selector == NULL || tls->is_challenge) {
        return 1;
    }
    if (tls->selector->certify != NULL && !tls->selector->certify(tls->conn, tls->selector->arg)) {
        return 0;
    }
    return tls->hooks == NULL || tls_accept_ask(tls, tls->hooks->certify);
}

void tls_server_init(struct tls_context *context, SSL_CTX *ctx)
{
    SSL_CTX_set_client_hello_cb(ctx, on_client_hello, NULL);
    SSL_CTX_set_tlsext_servername_callback(ctx, on_server_name);
    SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
    SSL_CTX_set_cert_cb(ctx, on_certificate, NULL);
}

/* ---- the handshake ---- */

bool tls_accept(struct conn *conn, struct tls_context *context, const struct tls_selector *selector)
{
    struct tls *tls = tls_attach(conn, context);

    tls->selector = selector;
    tls->hooks =
        selector == NULL || selector->hooks == NULL ? NULL : selector->hooks(conn, selector->arg);
    return true;
}

static bool is_tls(char first)
{
    /* A handshake record, or a ClientHello in SSL 2 format, which OpenSSL answers. */
    return first == SSL3_RT_HANDSHAKE || ((unsigned char) first & 0x80) != 0;
}

static bool knows_plain(const struct tls *tls)
{
    return tls->selector != NULL && tls->selector->knows_plain;
}

/* Looks at the first byte, which tells TLS from plain HTTP. The first bytes are read as those of a
 * plain connection. */
static enum tls_progress look_for_tls(struct conn *conn)
{
    struct tls *tls = tls_of(conn);
    const struct conn_transport *transport = conn->transport;

    if (conn_input_len(conn) == 0) {
        conn->transport = NULL;
        bool has_bytes = conn_fill(conn, FIRST_BYTES, FIRST_BYTES);
        conn->transport = transport;
        if (!has_bytes) {
            if (conn->is_broken || conn->is_input_closed) {
                log_info(conn->log, conn->is_broken ? conn->error : 0,
                         knows_plain(tls) ? "client closed connection"
                                          : "peer closed connection in SSL handshake");
                tls->is_failed = true;
                return TLS_FAILED;
            }
            return TLS_MORE;
        }
    }
    if (knows_plain(tls) && !is_tls(conn_input(conn).data[0])) {
        transport->close(conn);
        return TLS_PLAIN;
    }
    tls->prefix_at = conn->in_start;
    tls->prefix_end = conn->in_end;
    conn->in_start = conn->in_end; /* so that conn_input_detach copies nothing */
    tls->prefix = conn_input_detach(conn, &tls->prefix_size);
    if (tls_ssl_new(tls, tls->context->ctx) == NULL) {
        tls->is_failed = true;
        return TLS_FAILED;
    }
    SSL_set_accept_state(tls->ssl);
    tls->reads_early = tls->context->settings.early_data;
    tls->was_looked_at = true;
    return TLS_DONE;
}

enum tls_progress tls_handshake(struct conn *conn)
{
    struct tls *tls = tls_of(conn);

    if (tls->is_failed) {
        return TLS_FAILED;
    }
    if (!tls->is_client && !tls->was_looked_at) {
        enum tls_progress progress = look_for_tls(conn);
        if (progress != TLS_DONE) {
            return progress;
        }
    }
    if (!tls->is_established) {
        enum tls_progress progress = tls_step(conn);
        if (progress != TLS_DONE) {
            return progress;
        }
    }
    if (!tls->is_client && tls->context->settings.ocsp != 0) {
        return tls_ocsp_check(tls);
    }
    return TLS_DONE;
}
