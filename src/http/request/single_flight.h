/* One request asks for something that many need; the others wait for its answer. */
#ifndef HTTP_REQUEST_SINGLE_FLIGHT_H
#define HTTP_REQUEST_SINGLE_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* Part of what is kept of the answer, in one worker. Zero but for single_flight_init. */
struct single_flight {
    bool is_busy;        /* somebody asks */
    unsigned users;      /* requests that hold what this is part of across a wait: it may not go */
    uint64_t failed_ms;  /* when the last attempt failed, by the monotonic clock; 0 = it did not */
    struct list waiters; /* of this package */
};

void single_flight_init(struct single_flight *flight);
/* The caller asks, and says when it has its answer, or has failed. */
void single_flight_begin(struct single_flight *flight);
void single_flight_end(struct single_flight *flight);
/* Waits until the request that asks has ended. False: the waiting request was cancelled. MAY WAIT.
 */
bool single_flight_wait(struct single_flight *flight);
/* Has an attempt failed less than so many milliseconds ago? */
bool single_flight_has_failed(const struct single_flight *flight, uint64_t within_ms);

#endif
