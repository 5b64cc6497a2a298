/* Ticket keys that make themselves, and readings of the configuration. The rest about them is in
 * tls.h. Implemented in ticket.c. */
#ifndef NET_TLS_RING_H
#define NET_TLS_RING_H

#include "base/shm.h"

/*
 * A configuration is read whose contexts will use the ring of this zone: to be called before the
 * first of them is made. The longest of their periods counts at once where it is longer than the
 * present one, else as soon as one of them is used. False: no room.
 */
bool tls_ring_begin(struct zone *zone);

#endif
