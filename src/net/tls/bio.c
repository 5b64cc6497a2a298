/* Between OpenSSL and the socket: ciphertext is gathered, sent, and held while the socket is
 * full. */
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/conn/private.h"
#include "net/tls/private.h"

#define RECORD_SIZE (TLS_RECORD_MAX + 512) /* a record with the overhead of TLS */
#define HELD_MOST (512u * 1024)            /* ciphertext held for a socket that is not writable */

/* ---- sending ciphertext ---- */

/*
 * The records of one call are gathered here and sent with one system call. Nothing waits between
 * tls_gather_begin and tls_gather_end, so one buffer is enough for a worker.
 */
static char gather[RECORDS_PER_SEND * RECORD_SIZE];
static uint32_t gathered;
static struct tls *gathering; /* that uses the buffer, or NULL */

/* Sends what the socket accepts of these bytes. The socket is broken if tls->io_error is set after
 * that. */
static size_t send_some(struct tls *tls, const char *at, size_t size, bool more_follows)
{
    size_t sent = 0;

    while (sent < size && tls->io_error == 0) {
        ssize_t n = send(tls->conn->source.fd, at + sent, size - sent,
                         MSG_NOSIGNAL | (more_follows ? MSG_MORE : 0));
        if (n >= 0) {
            sent += (size_t) n;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            tls->io_error = errno;
        }
    }
    return sent;
}

/* Appends to the held ciphertext. */
static void input_hold(struct tls *tls, const char *at, size_t size)
{
    uint32_t held = tls->out_end - tls->out_at;

    if (size > HELD_MOST - held) {
        tls->io_error = ENOBUFS; /* a peer that causes output and does not read it */
        return;
    }
    if (tls->out_size - tls->out_end < size) {
        uint32_t capacity = held + (uint32_t) size;
        char *bigger = malloc(capacity);

        if (bigger == NULL) {
            fatal_no_memory(capacity);
        }
        if (held != 0) {
            memcpy(bigger, tls->out + tls->out_at, held);
        }
        free(tls->out);
        tls->out = bigger;
        tls->out_size = capacity;
        tls->out_at = 0;
        tls->out_end = held;
    }
    memcpy(tls->out + tls->out_end, at, size);
    tls->out_end += (uint32_t) size;
    tls->is_held_back = false;
}

/* Sends the held ciphertext; true: nothing is left. */
bool tls_send_held(struct tls *tls, bool more_follows)
{
    if (tls->out != NULL) {
        tls->out_at += (uint32_t) send_some(tls, tls->out + tls->out_at, tls->out_end - tls->out_at,
                                            more_follows);
        if (tls->out_at != tls->out_end) {
            return false;
        }
        free(tls->out);
        tls->out = NULL;
        tls->out_at = tls->out_end = tls->out_size = 0;
    }
    return true;
}

static void send_gathered(struct tls *tls, bool more_follows)
{
    size_t sent = 0;

    if (gathered == 0) {
        return;
    }
    if (tls_send_held(tls, true)) {
        sent = send_some(tls, gather, gathered, more_follows);
    }
    if (sent < gathered && tls->io_error == 0) {
        input_hold(tls, gather + sent, gathered - sent);
    }
    gathered = 0;
}

void tls_gather_begin(struct tls *tls)
{
    assert(gathering == NULL);
    gathering = tls;
    gathered = 0;
}

bool tls_gather_end(struct tls *tls, bool more_follows)
{
    if (gathered != 0) {
        send_gathered(tls, more_follows);
    }
    gathering = NULL;
    return tls->io_error == 0;
}

void tls_gather_drop(struct tls *tls)
{
    assert(gathering == tls);
    gathered = 0;
    gathering = NULL;
}

/* Moves the ciphertext that was held back to the gather buffer, before what is written now. */
void tls_take_held_back(struct tls *tls)
{
    if (tls->is_held_back) {
        memcpy(gather, tls->out + tls->out_at, tls->out_end - tls->out_at);
        gathered = tls->out_end - tls->out_at;
        tls->is_held_back = false;
        free(tls->out);
        tls->out = NULL;
        tls->out_at = tls->out_end = tls->out_size = 0;
    }
}

/* Holds back what was gathered: it is not urgent. */
void tls_hold_back(struct tls *tls)
{
    if (gathered != 0) {
        input_hold(tls, gather, gathered);
        gathered = 0;
        tls->is_held_back = true;
    }
}

/* ---- the BIO: the socket as OpenSSL sees it ---- */

static int bio_read(BIO *bio, char *at, int size)
{
    struct tls *tls = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (size <= 0) {
        return 0;
    }
    if (tls->prefix != NULL) {
        uint32_t n = tls->prefix_end - tls->prefix_at;

        n = n < (uint32_t) size ? n : (uint32_t) size;
        memcpy(at, tls->prefix + tls->prefix_at, n);
        tls->prefix_at += n;
        if (tls->prefix_at == tls->prefix_end) {
            conn_buffer_free(tls->prefix, tls->prefix_size);
            tls->prefix = NULL;
        }
        return (int) n;
    }
    if (tls->is_raw_closed) {
        return 0;
    }
    if (!tls->is_raw_readable) {
        BIO_set_retry_read(bio);
        return -1;
    }
    ssize_t n;
    do {
        n = recv(tls->conn->source.fd, at, (size_t) size, 0);
    } while (n == -1 && errno == EINTR);
    if (n > 0) {
        /* As with plain sockets, a short read means that the socket is empty. */
        if (n < size && !tls->conn->is_peer_closed) {
            tls->is_raw_readable = false;
            tls->drained_turn = (uint32_t) loop_turns();
        }
        return (int) n;
    }
    tls->is_raw_readable = false;
    if (n == 0) {
        tls->is_raw_closed = true;
        return 0;
    }
    if (errno == EAGAIN) {
        BIO_set_retry_read(bio);
    } else {
        tls->io_error = errno;
    }
    return -1;
}

static int bio_write(BIO *bio, const char *at, int size)
{
    struct tls *tls = BIO_get_data(bio);

    BIO_clear_retry_flags(bio);
    if (size <= 0) {
        return 0;
    }
    assert(gathering == tls);
    if ((size_t) size > sizeof(gather) - gathered) {
        send_gathered(tls, true);
    }
    if ((size_t) size > sizeof(gather)) {
        tls->io_error = EMSGSIZE;
    }
    if (tls->io_error != 0) {
        return -1;
    }
    memcpy(gather + gathered, at, (size_t) size);
    gathered += (uint32_t) size;
    return size;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    struct tls *tls = BIO_get_data(bio);

    switch (command) {
    case BIO_CTRL_FLUSH:
    case BIO_CTRL_DUP:
        return 1;
    case BIO_CTRL_EOF:
        return tls != NULL && tls->is_raw_closed;
    default:
        return 0;
    }
}

static int bio_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

BIO_METHOD *tls_bio_method_new(const char *name, int (*read)(BIO *, char *, int),
                               int (*write)(BIO *, const char *, int),
                               long (*ctrl)(BIO *, int, long, void *))
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, name);

    if (method == NULL) {
        fatal_no_memory(sizeof(void *));
    }
    BIO_meth_set_read(method, read);
    BIO_meth_set_write(method, write);
    BIO_meth_set_ctrl(method, ctrl);
    BIO_meth_set_create(method, bio_create);
    return method;
}

static BIO_METHOD *bio_method(void)
{
    static BIO_METHOD *method;

    if (method == NULL) {
        method = tls_bio_method_new("connection", bio_read, bio_write, bio_ctrl);
    }
    return method;
}

SSL *tls_ssl_new(struct tls *tls, SSL_CTX *ctx)
{
    if (tls->way != NULL) {
        return tls->way->ssl_new(tls, ctx);
    }
    SSL *ssl = SSL_new(ctx);
    BIO *bio = ssl == NULL ? NULL : BIO_new(bio_method());

    if (bio == NULL) {
        SSL_free(ssl);
        tls_log_at(tls->conn->log, LOG_ALERT, "SSL_new() failed");
        return NULL;
    }
    BIO_set_data(bio, tls);
    SSL_set0_rbio(ssl, bio);
    tls->made_with = ctx;
#if defined(SSL_OP_ENABLE_KTLS) && !defined(OPENSSL_NO_KTLS)
    if (SSL_CTX_get_options(ctx) & SSL_OP_ENABLE_KTLS) {
        /* The kernel encrypts, so OpenSSL must have the socket itself. */
        BIO *out = BIO_new_socket(tls->conn->source.fd, BIO_NOCLOSE);

        if (out == NULL) {
            SSL_free(ssl);
            tls_log_at(tls->conn->log, LOG_ALERT, "BIO_new_socket() failed");
            return NULL;
        }
        tls->uses_ktls = true;
        tls->conn->transport = &tls_transport_ktls;
        SSL_set0_wbio(ssl, out);
    }
#endif
    if (!tls->uses_ktls) {
        BIO_up_ref(bio);
        SSL_set0_wbio(ssl, bio);
    }
    SSL_set_ex_data(ssl, tls_index, tls);
    tls->ssl = ssl;
    return ssl;
}

struct tls *tls_attach(struct conn *conn, struct tls_context *context)
{
    struct tls *tls = calloc(1, sizeof(*tls));

    if (tls == NULL) {
        fatal_no_memory(sizeof(*tls));
    }
    CHECK_MAGIC(context, TLS_CONTEXT_MAGIC);
    tls->conn = conn;
    tls->context = context;
    tls->start_ms = (uint32_t) clock_now.now_ms;
    tls->drained_turn = (uint32_t) loop_turns() - 1;
    conn->transport_state = tls;
    conn->transport = &tls_transport;
    return tls;
}
