/* Connections of this service to itself: recognises which peers are our own sockets, and counts how
 * often a request has passed through this service. */
#ifndef NET_CONN_OWN_H
#define NET_CONN_OWN_H

#include <stdbool.h>

#include "net/addr/addr.h"

/*
 * A backend may be this service itself: by a name that a client chose, by mistake, or on purpose
 * (one server in front of another). A worker that connects to a port on which the service listens
 * stores the addresses of both ends in memory that all workers share; the worker that accepts the
 * connection finds them there. So it needs nothing in the protocol, and nothing there can be
 * forged. Connections whose address is changed by NAT are not recognised.
 */

#define OWN_HOPS_MOST 255

/* Allocates the shared memory, once, before anything listens. False with errno. Without it nothing
 * is recognised. */
bool own_init(void);

/* The service listens on this address. Stored by port, or by path, for the life of the service. */
void own_listens(const struct addr *addr, bool is_datagram);
/* May the address be one on which this service listens? False is certain. The second is for UDP. */
bool own_may_be(const struct addr *addr);
bool own_may_take_datagrams(const struct addr *addr);

/*
 * To be called before connect(): a client's unix socket gets an abstract name, so that the other
 * end can recognise it. Does nothing for other families, or if binding fails.
 */
void own_name(int fd, const struct addr *peer);

/*
 * fd is connected to an address that may be ours, nothing was sent on it yet, and it carries
 * requests that will have passed through this service `hops` times. True: the connection certainly
 * stays on this machine.
 */
bool own_note(int fd, const struct addr *peer, unsigned hops);
/* The same, but adds an entry only if the connection certainly stays on this machine, and gives
 * whether it did: for connections that are short-lived and many. */
bool own_note_at_home(int fd, const struct addr *peer, unsigned hops);
/* The connection is about to be closed. Its entry is found for about two seconds more, since the
 * worker that accepted it may not have looked yet. */
void own_forget(int fd, const struct addr *peer);
void own_forget_at(const struct addr *local, const struct addr *peer);

/*
 * How many times requests on this accepted connection have passed through this service; 0 = it
 * comes from elsewhere. `peer` as accept() gave it. To be called after something was read.
 */
unsigned own_hops(int fd, const struct addr *peer);

/* The same for the client of a datagram, which sent it to `local`. */
unsigned own_hops_at(const struct addr *local, const struct addr *peer);

#endif
