/* Connections of this service to itself: which of our own sockets a peer is, and how often its
 * request came round. */
#ifndef NET_CONN_OWN_H
#define NET_CONN_OWN_H

#include <stdbool.h>

#include "net/addr/addr.h"

/*
 * A backend may be this service: by a name that a client chose, by mistake, or on purpose (one
 * server in front of another). A worker that connects to a port on which the service listens notes
 * the addresses of both ends, in memory that all workers share; the worker that accepted it finds
 * them there. So nothing in the protocol is needed, and nothing in it can be forged. Connections
 * whose address is changed on the way (NAT) are not recognised.
 */

#define OWN_HOPS_MOST 255

/* Makes the shared memory, once, before anything listens. False with errno. Without it nothing is
 * recognised. */
bool own_init(void);

/* The service listens on this address; remembered by its port, or its path, for the life of the
 * service. */
void own_listens(const struct addr *addr, bool is_datagram);
/* May the address be ours? False is certain. The second: of UDP. */
bool own_may_be(const struct addr *addr);
bool own_may_take_datagrams(const struct addr *addr);

/*
 * Before connect(): what needs a name of its own, so that the other end can tell whose it is, gets
 * one: a socket of the unix kind. Nothing for the others, or when it fails.
 */
void own_name(int fd, const struct addr *peer);

/*
 * fd is connected to an address that may be ours, nothing was sent on it yet, and it carries
 * requests that will have come round `hops` times. Gives whether it surely leads to this machine.
 */
bool own_note(int fd, const struct addr *peer, unsigned hops);
/* The same, where it surely leads to this machine; gives whether it was noted: for what is
 * short-lived and many. */
bool own_note_at_home(int fd, const struct addr *peer, unsigned hops);
/* It is about to be closed. The worker that accepted it may still look for a while: it has perhaps
 * not come to it yet. */
void own_forget(int fd, const struct addr *peer);
void own_forget_at(const struct addr *local, const struct addr *peer);

/*
 * How often what comes over this accepted connection came round, its peer as accept() gave it; 0 =
 * it is from elsewhere. To be asked when something was read.
 */
unsigned own_hops(int fd, const struct addr *peer);

/* The same of a datagram's client, who asked this address of ours. */
unsigned own_hops_at(const struct addr *local, const struct addr *peer);

#endif
