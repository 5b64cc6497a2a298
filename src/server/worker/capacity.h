/* How much a worker takes on at one time. */
#ifndef SERVER_WORKER_CAPACITY_H
#define SERVER_WORKER_CAPACITY_H

#include "server/generation.h"

/* Computes `capacity` for this worker; gives how many fibers its pool has to have. */
uint32_t capacity_init(const struct generation *generation);

#endif
