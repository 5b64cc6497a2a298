/* The stages of a connection: the faces of this folder's parts to each other. */
#ifndef HTTP_CLIENT_STAGES_H
#define HTTP_CLIENT_STAGES_H

#include "http/client/protocol.h"
#include "http/client/tcp.h"

/* The connection is at this stage from now on; the only place that says whom the loop tells. */
void connection_enter(struct http_connection *connection, enum connection_stage stage);
/* What is deferred as connection->settle. */
void connection_settle(struct deferred *deferred);

/* accept.c */
void proxy_header_input(struct conn *conn);
void proxy_header_timeout(struct conn *conn);
void handshake_input(struct conn *conn);
void handshake_timeout(struct conn *conn);
void detection_input(struct conn *conn);
void detection_timeout(struct conn *conn);

/* idle.c: the worker is on its way out. */
void idle_quit(struct http_connection *connection);
/* Continues with what an older worker handed over. */
void idle_resume(struct http_connection *connection, const void *state, size_t size);

/* linger.c */
void linger_input(struct conn *conn);
void linger_timeout(struct conn *conn);

#endif
