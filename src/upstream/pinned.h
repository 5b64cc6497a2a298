/* Pinned connections: connections to peers that belong to one client's connection.
 * Implemented in connections/pinned.c. */
#ifndef UPSTREAM_PINNED_H
#define UPSTREAM_PINNED_H

/*
 * A backend may know a client by the connection on which its requests arrive: after a login by NTLM
 * or Negotiate (RFC 4559) all requests on it count as that client's. So no other client may use it,
 * and this one should use it again. This holds such connections of one client's connection; it is
 * made with the first.
 */
struct pinned_connections;
struct upstream_connection;

/*
 * From now on the connection belongs to this client alone, whose connections are at *pinned (NULL:
 * it is made). A connection that other requests use as well cannot: it takes no further requests.
 */
void upstream_connection_bind(struct upstream_connection *connection,
                              struct pinned_connections **pinned);

/* The client's connection ends, and with it those pinned to it: busy ones with their requests.
 * NULL: nothing. */
void pinned_end(struct pinned_connections *pinned);

#endif
