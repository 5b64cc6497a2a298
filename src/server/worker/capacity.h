/* How much a worker takes on at one time. */
#ifndef SERVER_WORKER_CAPACITY_H
#define SERVER_WORKER_CAPACITY_H

#include "server/generation.h"

/* Computes `capacity` for this worker; gives how many fibers its pool has to have. */
uint32_t capacity_init(const struct generation *generation);

/* The pool has so many, perhaps fewer: then fewer requests, so that those that begun have what they
 * need beside their own. */
void capacity_fit(const struct generation *generation, size_t fibers);

#endif
