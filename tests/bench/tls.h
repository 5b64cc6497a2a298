/* tls: the load generator's TLS 1.3 connections, on sockets that do not block. */

#ifndef BENCH_TLS_H
#define BENCH_TLS_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

extern uint64_t tls_handshakes; /* that were completed */
extern uint64_t tls_resumed;    /* of these, resumed ones */

/* Makes what all connections share, once. `resumes`: each connection offers the newest session.
 * Ends the program when memory is out. */
void tls_prepare(const char *host, bool resumes);

/* Is there a session to be offered? */
bool tls_has_session(void);

/* A client's side on a connected (or connecting) socket, which stays the caller's. The handshake is
 * done by the first tls_send. RFC 8446. */
SSL *tls_new(int fd);

/* As send() and recv() on a socket that does not block: bytes; 0 (tls_recv) when the server said
 * that this was all; or -1 with errno, EAGAIN where the socket is to be waited for (to send, if
 * tls_wants_write says so), EPROTO where TLS itself failed. Data may be left in the library when
 * epoll has no more: tls_has_more. */
ssize_t tls_send(SSL *tls, const void *data, size_t size);
ssize_t tls_recv(SSL *tls, void *data, size_t size);
bool tls_wants_write(SSL *tls);
bool tls_has_more(SSL *tls);

/* Forgets a connection, without a word to the server. NULL is nothing. */
void tls_free(SSL *tls);

#endif
