/* How much a worker takes on at one time. */
#ifndef SERVER_CAPACITY_H
#define SERVER_CAPACITY_H

#include <stdint.h>

#include "server/generation.h"

/*
 * Requests of one worker that may be worked on at one time, and how many of these places are kept for
 * connections that have none at work. From worker_requests, or from the machine's memory; set by
 * capacity_init. Without it (unit tests) there is no limit.
 */
struct capacity {
    uint32_t requests;
    uint32_t reserve;
};
extern struct capacity capacity;

/* Computes the above for this worker; gives how many fibers its pool has to have. */
uint32_t capacity_init(const struct generation *generation);

#endif
