/* Handshakes in messages: the part that does not depend on the library's version. */
#include "net/tls/messages_private.h"

#include <assert.h>
#include <openssl/err.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/private.h"

static struct tls_messages *messages_of(const struct conn *conn)
{
    return tls_of(conn)->messages;
}

unsigned char *message_bytes_reserve(struct message_bytes *bytes, size_t size)
{
    if (bytes->capacity - bytes->used < size) {
        size_t capacity = bytes->used + size + 2048;
        unsigned char *bigger = realloc(bytes->at, capacity);

        if (bigger == NULL) {
            fatal_no_memory(capacity);
        }
        bytes->at = bigger;
        bytes->capacity = capacity;
    }
    return bytes->at + bytes->used;
}

void message_bytes_add(struct message_bytes *bytes, const void *from, size_t size)
{
    if (size != 0) {
        memcpy(message_bytes_reserve(bytes, size), from, size);
        bytes->used += size;
    }
}

enum message_met message_walk_on(struct message_walk *walk, struct str *bytes)
{
    while (walk->head_size < sizeof(walk->head) && bytes->len != 0) {
        walk->head[walk->head_size++] = (unsigned char) bytes->data[0];
        *bytes = str_skip(*bytes, 1);
        if (walk->head_size == sizeof(walk->head)) {
            walk->left =
                (uint32_t) walk->head[1] << 16 | (uint32_t) walk->head[2] << 8 | walk->head[3];
            if (walk->left != 0) {
                return MESSAGE_MET_HEAD;
            }
        }
    }
    if (walk->head_size < sizeof(walk->head)) {
        return MESSAGE_MET_NOTHING;
    }
    size_t n = bytes->len < walk->left ? bytes->len : walk->left;
    *bytes = str_skip(*bytes, n);
    walk->left -= (uint32_t) n;
    if (walk->left != 0) {
        return MESSAGE_MET_NOTHING;
    }
    walk->head_size = 0;
    return MESSAGE_MET_END;
}

/* ---- the transport of the conn, which carries nothing ---- */

static ssize_t no_recv(struct conn *conn, void *at, size_t size)
{
    errno = ENOTCONN;
    return -1;
}

static ssize_t no_writev(struct conn *conn, const struct iovec *iov, int count, bool more_follows)
{
    errno = ENOTCONN;
    return -1;
}

static void messages_close(struct conn *conn)
{
    struct tls *tls = tls_of(conn);

    loop_undefer(&tls->messages->resumed);
    if (tls->is_asking) {
        tls_ask_abandon(tls);
    } else {
        tls_state_free(tls);
    }
    conn->transport = NULL;
    conn->transport_state = NULL;
}

static const struct conn_transport messages_transport = {
    .recv = no_recv,
    .writev = no_writev,
    .close = messages_close,
};

/* ---- steps that wait ---- */

static void on_resumed(struct deferred *deferred)
{
    struct tls_messages *messages = container_of(deferred, struct tls_messages, resumed);

    messages->owner->resume(messages->arg);
}

static bool messages_follow(struct tls *tls)
{
    tls_messages_follow(tls);
    return tls_messages_went_over(tls);
}

static void messages_wake(struct tls *tls)
{
    loop_defer(&tls->messages->resumed);
}

static const struct tls_way messages_way = {
    .ssl_new = tls_messages_ssl_new,
    .prepare = tls_messages_prepare_ctx,
    .follow = messages_follow,
    .wake = messages_wake,
    .free = tls_messages_free,
};

/* ---- creation ---- */

static struct tls *attach(struct conn *conn, struct tls_context *context,
                          const struct tls_messages_owner *owner, void *arg)
{
    struct tls *tls = tls_attach(conn, context);
    struct tls_messages *messages = calloc(1, sizeof(*messages));

    if (messages == NULL) {
        fatal_no_memory(sizeof(*messages));
    }
    messages->tls = tls;
    messages->owner = owner;
    messages->arg = arg;
    messages->writing = TLS_LEVEL_HANDSHAKE;
    deferred_init(&messages->resumed, on_resumed);
    tls->way = &messages_way;
    tls->messages = messages;
    tls->was_looked_at = true;
    conn->transport = &messages_transport;
    return tls;
}

bool tls_messages_accept(struct conn *conn, struct tls_context *context,
                         const struct tls_selector *selector,
                         const struct tls_messages_owner *owner, void *arg)
{
    struct tls *tls = attach(conn, context, owner, arg);

    tls->selector = selector;
    tls->hooks =
        selector == NULL || selector->hooks == NULL ? NULL : selector->hooks(conn, selector->arg);
    if (tls_ssl_new(tls, context->ctx) == NULL) {
        return false;
    }
    SSL_set_accept_state(tls->ssl);
    return true;
}

bool tls_messages_connect(struct conn *conn, struct tls_context *context,
                          const struct tls_client_options *options,
                          const struct tls_messages_owner *owner, void *arg)
{
    struct tls *tls = attach(conn, context, owner, arg);

    tls->is_client = true;
    tls->deadline_ms = FIBER_NEVER; /* the code that waits for the handshake has one */
    return tls_client_prepare(tls, options);
}

void tls_messages_follow(struct tls *tls)
{
    SSL_clear_options(tls->ssl, SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    SSL_set_min_proto_version(tls->ssl, TLS1_3_VERSION);
    SSL_set_max_proto_version(tls->ssl, TLS1_3_VERSION);
    SSL_set_max_early_data(tls->ssl, 0); /* tickets may not offer 0-RTT, which is not accepted */
}

/* ---- steps ---- */

/* After the handshake a client may receive tickets, a server nothing. Neither may receive KeyUpdate
 * messages (RFC 9001, 4.4 and 6). */
static bool is_allowed_late(struct tls_messages *messages, struct str bytes)
{
    bool is_allowed = messages->tls->is_client;

    while (is_allowed && bytes.len != 0) {
        message_walk_on(&messages->heard, &bytes);
        is_allowed = messages->heard.head[0] == SSL3_MT_NEWSESSION_TICKET;
    }
    return is_allowed;
}

bool tls_messages_input(struct conn *conn, enum tls_level level, struct str bytes)
{
    struct tls_messages *messages = messages_of(conn);

    if (messages->has_failed) {
        return false;
    }
    if (level != messages->reading ||
        (level == TLS_LEVEL_APPLICATION && !is_allowed_late(messages, bytes))) {
        messages->has_failed = true;
        messages->alert = TLS_ALERT_UNEXPECTED_MESSAGE;
        return false;
    }
    if (!tls_messages_put(messages, level, bytes)) {
        messages->has_failed = true;
        return false;
    }
    return true;
}

static void tls_messages_say_failure(struct tls *tls)
{
    struct conn *conn = tls->conn;

    if (tls->is_rejected) {
        tls_clear_errors();
        log_info(conn->log, 0, "handshake rejected");
    } else {
        tls_log_failure(conn->log, "SSL_do_handshake() failed");
    }
}

/* Handles what comes after the handshake: tickets for a client. */
static enum tls_progress step_after(struct tls *tls)
{
    char byte;
    int result = SSL_read(tls->ssl, &byte, 1);

    return result <= 0 && SSL_get_error(tls->ssl, result) == SSL_ERROR_WANT_READ ? TLS_DONE
                                                                                 : TLS_FAILED;
}

static enum tls_progress step_handshake(struct tls *tls)
{
    int result = SSL_do_handshake(tls->ssl);

    if (result == 1) {
        return TLS_DONE;
    }
    int kind = SSL_get_error(tls->ssl, result);
    return kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE ? TLS_MORE : TLS_FAILED;
}

static enum tls_progress step(struct tls *tls)
{
    struct tls_messages *messages = tls->messages;

    tls_clear_errors();
    tls_gather_begin(tls); /* nothing is gathered, but hooks end and begin it */
    enum tls_progress progress = messages->is_over ? step_after(tls) : step_handshake(tls);
    tls_gather_drop(tls);
    if (tls->is_abandoned) {
        return TLS_FAILED;
    }
    if (messages->has_failed) {
        progress = TLS_FAILED; /* set by a callback */
    }
    if (progress == TLS_FAILED) {
        tls->is_failed = true;
        messages->has_failed = true;
        tls_messages_say_failure(tls);
    }
    if (!tls_messages_collect(messages) && progress != TLS_FAILED) {
        tls->is_failed = messages->has_failed = true;
        log_alert(tls->conn->log, 0, "the TLS library wrote records that do not open");
        return TLS_FAILED;
    }
    return progress;
}

static enum tls_progress end_handshake(struct tls *tls)
{
    struct tls_messages *messages = tls->messages;
    const unsigned char *alpn;
    unsigned alpn_size;

    if (!messages->has_parameters) {
        messages->alert = TLS_ALERT_MISSING_EXTENSION;
        log_info(tls->conn->log, 0, "the peer sent no transport parameters");
        return TLS_FAILED;
    }
    SSL_get0_alpn_selected(tls->ssl, &alpn, &alpn_size);
    if (alpn_size == 0) {
        messages->alert = TLS_ALERT_NO_APPLICATION_PROTOCOL;
        log_info(tls->conn->log, 0, "no application protocol was negotiated (ALPN)");
        return TLS_FAILED;
    }
    tls->is_established = true;
    tls->took_ms = (uint32_t) clock_now.now_ms - tls->start_ms;
    return TLS_DONE;
}

enum tls_progress tls_messages_step(struct conn *conn)
{
    struct tls *tls = tls_of(conn);
    struct tls_messages *messages = tls->messages;

    if (messages->has_failed) {
        return TLS_FAILED;
    }
    if (!tls->is_established || messages->is_over) {
        bool asks = (tls->hooks != NULL || tls->client_hooks != NULL) && !messages->is_over;
        enum tls_progress progress = asks ? tls_ask_step(tls, step) : step(tls);
        if (progress != TLS_DONE || messages->is_over) {
            return progress;
        }
        if (end_handshake(tls) == TLS_FAILED) {
            messages->has_failed = true;
            return TLS_FAILED;
        }
    }
    if (!tls->is_client && tls->context->settings.ocsp != 0 && tls_ocsp_check(tls) == TLS_MORE) {
        return TLS_MORE;
    }
    messages->is_over = true;
    tls->client_hooks = NULL; /* they are valid only until the handshake ends */
    if (!tls->is_client) {
        tls_messages_settle(messages);
    }
    return TLS_DONE;
}

void tls_messages_stop(struct conn *conn)
{
    struct tls *tls = tls_of(conn);

    if (tls->client_hooks != NULL && tls->is_asking) {
        fiber_cancel_and_join(&tls->asking);
    }
}

bool tls_messages_verify(struct conn *conn, const struct tls_client_options *options)
{
    return !options->verifies || tls_client_is_right_peer(tls_of(conn)->ssl, options, conn->log);
}

unsigned tls_messages_alert(const struct conn *conn)
{
    unsigned alert = messages_of(conn)->alert;

    return alert == 0 ? TLS_ALERT_INTERNAL_ERROR : alert;
}

bool tls_messages_is_resumed(const struct conn *conn)
{
    return SSL_session_reused(tls_of(conn)->ssl) == 1;
}
