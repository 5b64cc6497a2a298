/* Generated ticket keys, and readings of the configuration. tls.h has the rest about them.
 * Implemented in ticket.c. */
#ifndef NET_TLS_RING_H
#define NET_TLS_RING_H

#include "base/shm.h"

/*
 * To be called when a configuration is read whose contexts will use the ring of this zone, before
 * the first of them is made. The longest of their periods takes effect at once if it is longer than
 * the current one, otherwise when one of them is used. False: no memory.
 */
bool tls_ring_begin(struct zone *zone);

#endif
