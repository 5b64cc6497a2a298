/* TCP handshakes under way, as sock_diag shows them; private to this package. */
#ifndef NET_SHARDS_HANDSHAKES_H
#define NET_SHARDS_HANDSHAKES_H

#include <stdbool.h>

#include "net/addr/addr.h"

/* The peers whose handshake with one address was under way at one time. */
struct handshakes;

/* Those of now, owned by the caller; NULL when the kernel does not tell, or there are too many. */
struct handshakes *handshakes_of(const struct addr *addr);

/* Whether one of them still is under way; false when the kernel does not tell any more. */
bool handshakes_go_on(const struct handshakes *handshakes);
/* One more owner of the same; each frees it. */
struct handshakes *handshakes_share(struct handshakes *handshakes);
void handshakes_free(struct handshakes *handshakes);

/* How many are under way now; -1 = unknown. */
int handshakes_count(const struct addr *addr);

/* Whether any socket listens on this address, or takes datagrams there: 1, 0, or -1 = unknown. */
int bound_elsewhere(const struct addr *addr, bool is_datagram);

#endif
