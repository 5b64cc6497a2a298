/* Client connections over TCP and unix sockets, from an accepted descriptor to its end.
 * Implemented in accept.c, idle.c and linger.c. */
#ifndef HTTP_CLIENT_TCP_H
#define HTTP_CLIENT_TCP_H

#include "http/client/connection.h"

/* Called for each listener of http (struct listener). */
void http_accepted(struct listener *listener, int fd, const struct addr *peer);
void http_passed(struct listener *listener, struct conn *conn);
void http_handed_over(struct listener *listener, int fd, const struct addr *peer, const void *state,
                      size_t size);

/* ---- for protocols; on the loop's stack, and the connection may be gone afterwards ---- */

/* Idle from now on: without buffers, and with the time of keep-alive. To be called at STAGE_SERVING
 * only. */
void connection_go_idle(struct http_connection *connection);
/* When the worker quits: does the connection, once it is idle, go over to the newer generation? */
bool connection_can_hand_over(const struct http_connection *connection);
/* For conn_owner.hand_over: gives an idle connection to another worker. False: it stays, since it
 * is TLS, is not idle, or came from another worker less than a second ago. */
bool idle_hand_over(struct conn *conn, struct handover *to);
/* Ends our side; reads and drops what follows until the client closes or time is up (RFC
 * 9112, 9.6). */
void connection_linger(struct http_connection *connection);
/* Ends at the end of this turn: who sees its end may look for the log line at once. */
void connection_end_later(struct http_connection *connection);
/* Ends, with a reset where that is wanted. */
void connection_end(struct http_connection *connection);
/* Closes the descriptor, and frees the connection. */
void connection_close(struct http_connection *connection);
/* The same with a reset instead of a close. */
void connection_reset(struct http_connection *connection);

#endif
