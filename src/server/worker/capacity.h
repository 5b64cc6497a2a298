/* How many requests a worker processes at one time. */
#ifndef SERVER_WORKER_CAPACITY_H
#define SERVER_WORKER_CAPACITY_H

#include "server/generation.h"

/* Computes `capacity` for this worker; gives the number of fibers that its pool needs. */
uint32_t capacity_init(const struct generation *generation);

/* The pool has this number of fibers, perhaps fewer than were requested: reduces the requests, so
 * that those in progress can start the further fibers that they need. */
void capacity_fit(const struct generation *generation, size_t fibers);

#endif
