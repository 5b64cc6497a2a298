/* TCP handshakes in progress, from sock_diag; private to this package. */
#ifndef NET_SHARDS_HANDSHAKES_H
#define NET_SHARDS_HANDSHAKES_H

#include <stdbool.h>

#include "net/addr/addr.h"

/* The peers whose handshakes with one address were in progress at one time. */
struct handshakes;

/* The handshakes in progress now, owned by the caller. NULL: the kernel does not report them, or
 * there are too many. */
struct handshakes *handshakes_of(const struct addr *addr);

/* Is one of them still in progress? False also if the kernel does not report them any more. */
bool handshakes_go_on(const struct handshakes *handshakes);
/* Adds an owner; each owner frees it. */
struct handshakes *handshakes_share(struct handshakes *handshakes);
void handshakes_free(struct handshakes *handshakes);

/* The number of handshakes in progress; -1 = unknown. */
int handshakes_count(const struct addr *addr);

/* Does any socket listen on this address, or receive datagrams there? 1, 0, or -1 = unknown. */
int bound_elsewhere(const struct addr *addr, bool is_datagram);

#endif
