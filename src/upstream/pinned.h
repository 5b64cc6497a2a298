/* Ties: connections to peers that belong to one client's connection. */
#ifndef UPSTREAM_PINNED_H
#define UPSTREAM_PINNED_H

/*
 * A backend may know a client by the connection that its requests come by: after a login by NTLM or Negotiate
 * (RFC 4559) whatever comes by that connection is his. So nobody else may have it, and he should have it again. A tie
 * holds such connections of one client's connection; it is made with the first.
 */
struct pinned_connections;
struct upstream_connection;

/*
 * From now on the connection is of this client alone, whose tie is at *tie (NULL: it is made). A connection that others use as well
 * cannot be: it takes no further requests.
 */
void upstream_connection_bind(struct upstream_connection *connection,
                              struct pinned_connections **pinned);

/* The client's connection ends, and with it the connections of the tie: busy ones with their requests. NULL: nothing. */
void pinned_end(struct pinned_connections *pinned);

#endif
