/* TLS as a transport: records over the socket of a connection. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/conn/private.h"
#include "net/tls/private.h"

struct ssl_st *tls_ssl(const struct conn *conn)
{
    return conn->transport == NULL ? NULL : tls_of(conn)->ssl;
}

/* ---- failures ---- */

/*
 * Logs the failure of an SSL_… call that is not a wait, and gives the errno of the connection. A
 * broken connection to an upstream is logged by the code that uses it.
 */
static int transport_say_failure(struct tls *tls, int kind, const char *what)
{
    const struct log *log = tls->conn->log;
    struct log own;

    if (tls->selector != NULL && tls->selector->log != NULL) {
        tls->selector->log(tls->conn, &own);
        log = &own;
    }
    tls->is_failed = true;
    if (tls->io_error != 0) {
        if (!tls->is_client) {
            tls_log_errno(log, tls->io_error, what);
        }
        return tls->io_error;
    }
    if (kind == SSL_ERROR_SYSCALL && ERR_peek_error() == 0) {
        return ECONNRESET;
    }
    if (tls->is_client) {
        tls_log_at(log, LOG_ERROR, what);
    } else {
        tls_log_failure(log, what);
    }
    return EPROTO;
}

/* ---- reading ---- */

/* Reads early data while there is some: bytes, 0 = no more, or -1 as recv. */
static ssize_t recv_early(struct tls *tls, void *at, size_t size)
{
    size_t n = 0;

    if (tls->has_early_byte && size != 0) {
        *(char *) at = tls->early_byte;
        tls->has_early_byte = false;
        return 1;
    }
    switch (SSL_read_early_data(tls->ssl, at, size, &n)) {
    case SSL_READ_EARLY_DATA_SUCCESS:
        return (ssize_t) n;
    case SSL_READ_EARLY_DATA_FINISH:
        tls->is_early = false;
        return 0;
    default:
        break;
    }
    int kind = SSL_get_error(tls->ssl, 0);
    if (kind == SSL_ERROR_WANT_READ || kind == SSL_ERROR_WANT_WRITE) {
        errno = EAGAIN;
        return -1;
    }
    errno = transport_say_failure(tls, kind, "SSL_read_early_data() failed");
    return -1;
}

static ssize_t recv_plain(struct tls *tls, void *at, size_t size)
{
    int n = SSL_read(tls->ssl, at, size > INT32_MAX ? INT32_MAX : (int) size);

    if (n > 0) {
        return n;
    }
    int kind = SSL_get_error(tls->ssl, n);
    switch (kind) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        break;
    }
    if (tls->is_raw_closed && tls->io_error == 0 && ERR_peek_error() == 0) {
        return 0;
    }
    errno = transport_say_failure(tls, kind, "SSL_read() failed");
    return -1;
}

static ssize_t tls_recv(struct conn *conn, void *at, size_t size)
{
    struct tls *tls = tls_of(conn);
    ssize_t n = 0;

    if (tls->is_failed || tls->ssl == NULL) {
        errno = EPROTO;
        return -1;
    }
    tls_clear_errors();
    /* What arrived since the socket was empty is reported by the loop at its next turn at the
     * earliest. */
    tls->is_raw_readable = tls->drained_turn != (uint32_t) loop_turns();
    tls_gather_begin(tls);
    if (tls->is_early) {
        n = recv_early(tls, at, size);
    }
    if (n == 0) {
        n = recv_plain(tls, at, size);
    }
    int error = errno;
    if (!tls_gather_end(tls, false) && n >= 0) {
        error = tls->io_error;
        n = -1;
    }
    if (tls->out != NULL && conn->out == NULL && !tls->is_held_back) {
        conn_want_drained(conn);
    }
    if (n > 0 && !tls->is_raw_readable && !tls->has_early_byte && !SSL_has_pending(tls->ssl)) {
        conn->is_readable = 0;
    }
    errno = error;
    return n;
}

/* ---- writing ---- */

/* Writes close_notify (RFC 8446, 6.1), once, into the gather buffer; the peer's is not waited for.
 * True: it was written. */
static bool say_end(struct tls *tls)
{
    if (tls->is_end_said || !tls->is_established || SSL_in_init(tls->ssl)) {
        return false;
    }
    tls->is_end_said = true;
    tls_clear_errors();
    SSL_shutdown(tls->ssl);
    tls_clear_errors();
    return true;
}

/* Encrypts up to one record; gives the bytes taken, or -1 with errno. */
static int write_record(struct tls *tls, const void *at, size_t size)
{
    int n;

    if (tls->is_early) {
        size_t written = 0;
        n = SSL_write_early_data(tls->ssl, at, size, &written) == 1 ? (int) written : 0;
    } else {
        n = SSL_write(tls->ssl, at, (int) size);
    }
    if (n > 0) {
        return n;
    }
    int kind = SSL_get_error(tls->ssl, n);
    if (kind == SSL_ERROR_WANT_WRITE || kind == SSL_ERROR_WANT_READ) {
        errno = EAGAIN;
        return -1;
    }
    errno = transport_say_failure(tls, kind, "SSL_write() failed");
    return -1;
}

/* Plain bytes of several pieces that form one record. */
static char record[TLS_RECORD_MAX];

/* The next bytes of the list, at most `most`, in one piece; removes them from the list. */
static struct str next_bytes(struct iovec *iov, int *first, int count, size_t skip, size_t most)
{
    const char *at = (const char *) iov[*first].iov_base + skip;
    size_t left = iov[*first].iov_len - skip;

    if (left >= most || *first == count - 1) {
        return (struct str){at, left < most ? left : most};
    }
    size_t n = 0;
    for (int i = *first; i < count && n < most; i++) {
        size_t part = iov[i].iov_len - skip;
        part = part < most - n ? part : most - n;
        memcpy(record + n, (const char *) iov[i].iov_base + skip, part);
        n += part;
        skip = 0;
    }
    return (struct str){record, n};
}

static size_t record_size(const struct tls *tls)
{
    uint64_t size = tls->context->settings.buffer_size;

    return size == 0 || size > TLS_RECORD_MAX ? TLS_RECORD_MAX : (size_t) size;
}

/* Encrypts pieces of memory up to the size of one send. Gives the bytes taken, or -1 with errno. */
static ssize_t encrypt(struct tls *tls, const struct iovec *pieces, int count)
{
    struct iovec *iov = (struct iovec *) pieces;
    size_t most = record_size(tls);
    ssize_t total = 0;
    size_t skip = 0;
    int first = 0;

    while (first < count && (uint32_t) total + most <= RECORDS_PER_SEND * TLS_RECORD_MAX) {
        struct str bytes = next_bytes(iov, &first, count, skip, most);
        int n = bytes.len == 0 ? 0 : write_record(tls, bytes.data, bytes.len);

        if (n < 0) {
            return total != 0 && errno == EAGAIN ? total : -1;
        }
        total += n;
        skip += (size_t) n;
        while (first < count && skip >= iov[first].iov_len) {
            skip -= iov[first].iov_len;
            first++;
        }
    }
    return total;
}

/*
 * Begins every kind of write: sends held ciphertext first. 0: continue. Otherwise the result to
 * return, which may be -1 with errno.
 */
static ssize_t write_begin(struct tls *tls)
{
    if (tls->is_failed || tls->ssl == NULL) {
        errno = EPROTO;
        return -1;
    }
    tls_clear_errors();
    if (tls->out != NULL && !tls->is_held_back) {
        bool is_empty = tls_send_held(tls, false);

        if (tls->io_error != 0) {
            tls->is_failed = true;
            errno = tls->io_error;
            return -1;
        }
        if (!is_empty) {
            errno = EAGAIN;
            return -1;
        }
        ssize_t ahead = tls->ahead;
        tls->ahead = 0;
        return ahead;
    }
    return 0;
}

/*
 * Ends a write of n encrypted bytes. They count as sent when the socket has accepted them. After
 * the last bytes of a connection close_notify follows at once, and all of it waits for the FIN.
 */
static ssize_t write_end(struct tls *tls, ssize_t n, bool more_follows)
{
    int error = errno;
    struct conn *conn = tls->conn;

    if (n > 0 && conn->is_last_output && (uint64_t) n == conn_unsent(conn)) {
        more_follows = say_end(tls);
        conn->is_fin_awaited = more_follows;
    }
    if (!tls_gather_end(tls, more_follows)) {
        tls->is_failed = true;
        errno = tls->io_error;
        return -1;
    }
    if (tls->out != NULL && n > 0) {
        tls->ahead = (uint32_t) n;
        errno = EAGAIN;
        return -1;
    }
    errno = error;
    return n;
}

static ssize_t tls_writev(struct conn *conn, const struct iovec *iov, int count, bool more_follows)
{
    struct tls *tls = tls_of(conn);
    ssize_t n = write_begin(tls);

    if (n != 0) {
        return n;
    }
    tls_gather_begin(tls);
    tls_take_held_back(tls);
    n = encrypt(tls, iov, count);
    return write_end(tls, n, more_follows);
}

/* Bytes of a file that are to be encrypted. */
static char file_bytes[RECORDS_PER_SEND * TLS_RECORD_MAX];

static ssize_t tls_sendfile(struct conn *conn, int fd, off_t offset, size_t size)
{
    struct tls *tls = tls_of(conn);
    ssize_t n = write_begin(tls);

    if (n != 0) {
        return n;
    }
    do {
        n = pread(fd, file_bytes, size < sizeof(file_bytes) ? size : sizeof(file_bytes), offset);
    } while (n == -1 && errno == EINTR);
    if (n <= 0) {
        if (n == 0 || errno == EAGAIN) {
            errno = EIO;
        }
        return -1;
    }
    struct iovec iov = {file_bytes, (size_t) n};
    bool more_follows = (size_t) n < size;
    tls_gather_begin(tls);
    tls_take_held_back(tls);
    n = encrypt(tls, &iov, 1);
    return write_end(tls, n, more_follows);
}

#if defined(SSL_OP_ENABLE_KTLS) && !defined(OPENSSL_NO_KTLS)
/* The kernel encrypts if it has the keys. */
static ssize_t tls_sendfile_ktls(struct conn *conn, int fd, off_t offset, size_t size)
{
    struct tls *tls = tls_of(conn);

    if (!BIO_get_ktls_send(SSL_get_wbio(tls->ssl)) || tls->is_early) {
        return tls_sendfile(conn, fd, offset, size);
    }
    tls_clear_errors();
    ssize_t n = SSL_sendfile(tls->ssl, fd, offset, size, 0);
    if (n > 0) {
        return n;
    }
    int kind = SSL_get_error(tls->ssl, (int) n);
    if (kind == SSL_ERROR_WANT_WRITE || (n == -1 && errno == EAGAIN)) {
        errno = EAGAIN;
        return -1;
    }
    if (n == 0) {
        errno = EIO;
        return -1;
    }
    errno = transport_say_failure(tls, kind, "SSL_sendfile() failed");
    return -1;
}
#endif

/* ---- closing ---- */

static void tls_end(struct conn *conn)
{
    struct tls *tls = tls_of(conn);

    if (tls->is_failed || conn->is_broken || tls->ssl == NULL || tls->io_error != 0 ||
        tls->is_asking) {
        return;
    }
    tls_gather_begin(tls);
    tls_take_held_back(tls);
    say_end(tls);
    tls_gather_end(tls, false);
}

void tls_state_free(struct tls *tls)
{
    if (tls->ssl != NULL) {
        if (!tls->is_failed) {
            /* So that the session can be resumed even if its connection just broke. */
            SSL_set_shutdown(tls->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
        }
        SSL_free(tls->ssl);
        tls_clear_errors();
    }
    if (tls->ocsp != NULL) {
        tls_ocsp_forget(tls);
    }
    if (tls->way != NULL) {
        tls->way->free(tls);
    }
    conn_buffer_free(tls->prefix, tls->prefix_size);
    free(tls->out);
    free(tls);
}

static void tls_close(struct conn *conn)
{
    struct tls *tls = tls_of(conn);

    if (tls->is_asking) {
        tls_ask_abandon(tls);
    } else {
        tls_end(conn);
        tls_state_free(tls);
    }
    conn->transport = NULL;
    conn->transport_state = NULL;
}

static void tls_drain(struct conn *conn)
{
    struct tls *tls = tls_of(conn);

    if (tls->wants_write) {
        tls->wants_write = false;
        conn_call_input(conn);
        return;
    }
    if (tls->out == NULL || tls->is_held_back || conn->out != NULL) {
        return; /* the queue is sent first, by tls_writev */
    }
    if (!tls_send_held(tls, false)) {
        if (tls->io_error != 0) {
            tls->is_failed = true;
            conn_break(conn, tls->io_error);
        } else {
            conn_want_drained(conn);
        }
    }
}

void tls_flush(struct conn *conn)
{
    struct tls *tls = tls_of(conn);

    if (conn->transport == NULL || tls->out == NULL || conn->out != NULL) {
        return;
    }
    tls->is_held_back = false;
    if (!tls_send_held(tls, false) && tls->io_error == 0) {
        conn_want_drained(conn);
    }
}

const struct conn_transport tls_transport = {
    .recv = tls_recv,
    .writev = tls_writev,
    .sendfile = tls_sendfile,
    .close = tls_close,
    .end = tls_end,
    .drain = tls_drain,
};

const struct conn_transport tls_transport_ktls = {
    .recv = tls_recv,
    .writev = tls_writev,
#if defined(SSL_OP_ENABLE_KTLS) && !defined(OPENSSL_NO_KTLS)
    .sendfile = tls_sendfile_ktls,
#endif
    .close = tls_close,
    .end = tls_end,
    .drain = tls_drain,
};

/* ---- the handshake ---- */

/* The first early data makes the connection usable before the client's Finished. 1 = usable, 0 =
 * the normal handshake continues, -1 = see SSL_get_error. */
static int step_early(struct tls *tls)
{
    size_t n;

    switch (SSL_read_early_data(tls->ssl, &tls->early_byte, 1, &n)) {
    case SSL_READ_EARLY_DATA_SUCCESS:
        tls->has_early_byte = n != 0;
        tls->is_early = true;
        return 1;
    case SSL_READ_EARLY_DATA_FINISH:
        tls->reads_early = false;
        return 0;
    default:
        return -1;
    }
}

static int handshake_step(struct tls *tls)
{
    if (tls->reads_early) {
        int result = step_early(tls);
        if (result != 0) {
            return result;
        }
    }
    return SSL_do_handshake(tls->ssl);
}

/* The handshake is not complete: it waits, or has failed. */
static enum tls_progress not_done(struct tls *tls, int result)
{
    struct conn *conn = tls->conn;
    int kind = SSL_get_error(tls->ssl, result);

    if (kind == SSL_ERROR_WANT_READ) {
        return TLS_MORE;
    }
    if (kind == SSL_ERROR_WANT_WRITE) {
        tls->wants_write = true;
        conn_want_drained(conn);
        return TLS_MORE;
    }
    tls->is_failed = true;
    tls_forget_failure();
    if (tls->is_raw_closed || (kind == SSL_ERROR_SYSCALL && tls->io_error == 0)) {
        tls_clear_errors();
        log_info(conn->log, 0, "peer closed connection in SSL handshake");
    } else if (tls->io_error == ECONNRESET) {
        tls_log_errno(conn->log, ECONNRESET, "peer closed connection in SSL handshake");
    } else if (tls->io_error != 0) {
        tls_log_errno(conn->log, tls->io_error, "SSL_do_handshake() failed");
    } else if (tls->is_rejected) {
        tls_clear_errors();
        log_info(conn->log, 0, "handshake rejected");
    } else {
        tls_log_failure(conn->log, "SSL_do_handshake() failed");
    }
    return TLS_FAILED;
}

static enum tls_progress step(struct tls *tls)
{
    struct conn *conn = tls->conn;

    tls_clear_errors();
    tls->is_raw_readable = conn->is_readable;
    tls_gather_begin(tls);
    int result = handshake_step(tls);
    if (tls->is_abandoned) {
        tls_gather_drop(tls);
        return TLS_FAILED;
    }
    enum tls_progress progress = result == 1 ? TLS_DONE : not_done(tls, result);
    if (progress == TLS_DONE && !tls->is_client && tls->out == NULL && !tls->is_early) {
        /* Tickets of TLS 1.3 are not urgent: they are sent with the first response. */
        if (!tls->uses_ktls && SSL_version(tls->ssl) == TLS1_3_VERSION) {
            tls_hold_back(tls);
        }
    }
    if (!tls_gather_end(tls, false) && progress != TLS_FAILED) {
        tls->is_failed = true;
        tls_log_errno(conn->log, tls->io_error, "SSL_do_handshake() failed");
        progress = TLS_FAILED;
    }
    conn->is_readable =
        tls->is_raw_readable || tls->has_early_byte || SSL_has_pending(tls->ssl) != 0;
    if (progress == TLS_DONE) {
        tls->is_established = true;
        tls->took_ms = (uint32_t) clock_now.now_ms - tls->start_ms;
    } else if (progress == TLS_MORE && tls->out != NULL) {
        conn_want_drained(conn);
    }
    return progress;
}

void tls_wake_owner(struct tls *tls)
{
    struct conn *conn = tls->conn;

    if (tls->way != NULL) {
        tls->way->wake(tls);
        return;
    }
    /* Called at the next turn, since the socket may have more input. */
    conn->is_readable = 1;
    if (!conn_watch(conn)) {
        conn_break(conn, EIO);
    }
}

enum tls_progress tls_step(struct conn *conn)
{
    struct tls *tls = tls_of(conn);

    return tls->hooks == NULL ? step(tls) : tls_ask_step(tls, step);
}
