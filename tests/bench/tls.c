/* tls: the load generator's TLS 1.3 connections, on sockets that do not block. */

#include "tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t tls_handshakes;
uint64_t tls_resumed;

static SSL_CTX *context;
static SSL_SESSION *newest;     /* the last one that the server gave; kept to be offered */
static const char *server_name; /* for SNI */

static void die(const char *what)
{
    fprintf(stderr, "load: %s: ", what);
    ERR_print_errors_fp(stderr);
    exit(2);
}

/* The library marks the session of a connection that failed as not to be resumed, which is no
 * matter for others: each has a copy. */
static SSL_SESSION *session_copy(const SSL_SESSION *session)
{
    SSL_SESSION *copy = SSL_SESSION_dup(session);

    if (copy == NULL)
        die("SSL_SESSION_dup");
    return copy;
}

static int keep_session(SSL *tls, SSL_SESSION *session)
{
    SSL_SESSION_free(newest);
    newest = session_copy(session);
    return 0; /* this one stays the library's */
}

void tls_prepare(const char *host, bool resumes)
{
    server_name = host;
    signal(SIGPIPE, SIG_IGN); /* the library writes with write() */
    context = SSL_CTX_new(TLS_client_method());
    if (context == NULL || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION))
        die("TLS");
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1); /* one read() for all that there is */
    SSL_CTX_set_quiet_shutdown(context, 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    if (resumes) {
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_sess_set_new_cb(context, keep_session);
    }
}

bool tls_has_session(void)
{
    return newest != NULL;
}

SSL *tls_new(int fd)
{
    SSL *tls = SSL_new(context);
    SSL_SESSION *session = newest != NULL ? session_copy(newest) : NULL;

    if (tls == NULL || !SSL_set_fd(tls, fd) || !SSL_set_tlsext_host_name(tls, server_name) ||
        (session != NULL && !SSL_set_session(tls, session)))
        die("SSL_new");
    SSL_SESSION_free(session);
    SSL_set_connect_state(tls);
    return tls;
}

/* What a call gave that did not give bytes, as recv() would say it. */
static ssize_t failure_of(SSL *tls, int result)
{
    switch (SSL_get_error(tls, result)) {
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_SYSCALL:
        if (errno == 0 || errno == EAGAIN)
            errno = ECONNRESET;
        return -1;
    default:
        errno = EPROTO;
        return -1;
    }
}

ssize_t tls_send(SSL *tls, const void *data, size_t size)
{
    bool was_ready = SSL_is_init_finished(tls);
    int result;

    ERR_clear_error();
    errno = 0;
    result = SSL_write(tls, data, (int) size);
    if (!was_ready && SSL_is_init_finished(tls)) {
        tls_handshakes++;
        tls_resumed += SSL_session_reused(tls) != 0;
    }
    return result > 0 ? result : failure_of(tls, result);
}

ssize_t tls_recv(SSL *tls, void *data, size_t size)
{
    int result;

    ERR_clear_error();
    errno = 0;
    result = SSL_read(tls, data, (int) size);
    return result > 0 ? result : failure_of(tls, result);
}

bool tls_wants_write(SSL *tls)
{
    return SSL_want_write(tls);
}

bool tls_has_more(SSL *tls)
{
    return SSL_has_pending(tls);
}

void tls_free(SSL *tls)
{
    if (tls == NULL)
        return;
    SSL_shutdown(tls); /* quiet: it only keeps the library from distrusting the session */
    SSL_free(tls);
}
