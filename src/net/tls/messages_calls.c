/* Handshakes in messages by the calls that OpenSSL has for QUIC since 3.5: SSL_set_quic_tls_cbs. */
#include "net/tls/messages_private.h"

#if TLS_HAS_QUIC_CALLS

#include <openssl/core_dispatch.h>
#include <openssl/err.h>
#include <stdlib.h>

const char *tls_messages_way(void)
{
    return "callbacks of OpenSSL";
}

/* The library's levels have the same numbers as ours. */
_Static_assert((int) OSSL_RECORD_PROTECTION_LEVEL_NONE == (int) TLS_LEVEL_INITIAL &&
                   (int) OSSL_RECORD_PROTECTION_LEVEL_EARLY == (int) TLS_LEVEL_EARLY &&
                   (int) OSSL_RECORD_PROTECTION_LEVEL_HANDSHAKE == (int) TLS_LEVEL_HANDSHAKE &&
                   (int) OSSL_RECORD_PROTECTION_LEVEL_APPLICATION == (int) TLS_LEVEL_APPLICATION,
               "levels of the library are ours");

/* ---- callbacks of the library ---- */

static int on_send(SSL *ssl, const unsigned char *bytes, size_t size, size_t *taken, void *arg)
{
    struct tls_messages *messages = arg;

    messages->owner->send(messages->arg, messages->writing,
                          (struct str){(const char *) bytes, size});
    *taken = size;
    return 1;
}

static int on_receive(SSL *ssl, const unsigned char **bytes, size_t *size, void *arg)
{
    struct tls_messages *messages = arg;

    *bytes = messages->in.at + messages->in_read;
    *size = messages->in.used - messages->in_read;
    return 1;
}

static int on_release(SSL *ssl, size_t size, void *arg)
{
    struct tls_messages *messages = arg;

    messages->in_read += size;
    return 1;
}

static int on_secret(SSL *ssl, uint32_t level, int is_for_sending, const unsigned char *secret,
                     size_t size, void *arg)
{
    struct tls_messages *messages = arg;
    const SSL_CIPHER *cipher = SSL_get_pending_cipher(ssl);

    cipher = cipher == NULL ? SSL_get_current_cipher(ssl) : cipher;
    if (level >= TLS_LEVELS || cipher == NULL) {
        return 0;
    }
    if (is_for_sending) {
        messages->writing = (enum tls_level) level;
    } else {
        messages->reading = (enum tls_level) level;
    }
    return messages->owner->secret(messages->arg, (enum tls_level) level, is_for_sending != 0,
                                   SSL_CIPHER_get_protocol_id(cipher),
                                   (struct str){(const char *) secret, size});
}

static int on_parameters(SSL *ssl, const unsigned char *bytes, size_t size, void *arg)
{
    struct tls_messages *messages = arg;

    messages->has_parameters = true;
    if (!messages->owner->parameters(messages->arg, (struct str){(const char *) bytes, size})) {
        return 0;
    }
    if (!SSL_is_server(ssl)) {
        return 1;
    }
    /* The peer's parameters may have changed ours, which were not sent yet. */
    struct str own = messages->owner->own_parameters(messages->arg);
    return SSL_set_quic_tls_transport_params(ssl, (const unsigned char *) own.data, own.len);
}

static int on_alert(SSL *ssl, unsigned char alert, void *arg)
{
    struct tls_messages *messages = arg;

    if (messages->alert == 0) {
        messages->alert = alert;
    }
    return 1;
}

/* ---- common interface of both implementations ---- */

bool tls_messages_prepare_ctx(SSL_CTX *ctx)
{
    return true;
}

bool tls_messages_put(struct tls_messages *messages, enum tls_level level, struct str bytes)
{
    if (messages->in_read == messages->in.used) {
        messages->in_read = messages->in.used = 0;
    }
    message_bytes_add(&messages->in, bytes.data, bytes.len);
    return true;
}

bool tls_messages_collect(struct tls_messages *messages)
{
    return true; /* on_send has passed it on already */
}

static bool set_calls(struct tls_messages *messages, SSL *ssl)
{
    static const OSSL_DISPATCH calls[] = {
        {OSSL_FUNC_SSL_QUIC_TLS_CRYPTO_SEND, (void (*)(void)) on_send},
        {OSSL_FUNC_SSL_QUIC_TLS_CRYPTO_RECV_RCD, (void (*)(void)) on_receive},
        {OSSL_FUNC_SSL_QUIC_TLS_CRYPTO_RELEASE_RCD, (void (*)(void)) on_release},
        {OSSL_FUNC_SSL_QUIC_TLS_YIELD_SECRET, (void (*)(void)) on_secret},
        {OSSL_FUNC_SSL_QUIC_TLS_GOT_TRANSPORT_PARAMS, (void (*)(void)) on_parameters},
        {OSSL_FUNC_SSL_QUIC_TLS_ALERT, (void (*)(void)) on_alert},
        {0, NULL},
    };
    struct str own = messages->owner->own_parameters(messages->arg);

    return SSL_set_quic_tls_cbs(ssl, calls, messages) == 1 &&
           SSL_set_quic_tls_transport_params(ssl, (const unsigned char *) own.data, own.len) == 1;
}

/* SSL_set_SSL_CTX keeps what belongs to the connection, including the transport parameters. */
bool tls_messages_went_over(struct tls *tls)
{
    return true;
}

SSL *tls_messages_ssl_new(struct tls *tls, SSL_CTX *ctx)
{
    SSL *ssl = SSL_new(ctx);

    tls->messages->writing = TLS_LEVEL_INITIAL;
    if (ssl == NULL || !set_calls(tls->messages, ssl)) {
        SSL_free(ssl);
        tls_log_at(tls->conn->log, LOG_ALERT, "SSL_set_quic_tls_cbs() failed");
        return NULL;
    }
    tls->made_with = ctx;
    SSL_set_ex_data(ssl, tls_index, tls);
    tls->ssl = ssl;
    tls_messages_follow(tls);
    return ssl;
}

void tls_messages_settle(struct tls_messages *messages)
{
    free(messages->in.at);
    messages->in = (struct message_bytes){0};
    messages->in_read = 0;
}

void tls_messages_free(struct tls *tls)
{
    tls_messages_settle(tls->messages);
    free(tls->messages);
}

#endif
