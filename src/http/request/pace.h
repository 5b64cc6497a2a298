/* How fast a client moves bytes while a request waits for it: client_body_min_rate,
 * client_body_total_timeout, send_min_rate. */
#ifndef HTTP_REQUEST_PACE_H
#define HTTP_REQUEST_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "http/request/request.h"

/*
 * One direction of a request. Only the time in which the request waits for the client counts, in
 * windows of it: a slow backend, a limit_rate or a busy worker is not the client's fault. Positions
 * count bytes, in the unit of the caller, and only grow.
 */
struct pace {
    uint64_t since_ms;  /* when the wait of now began; 0 = no wait */
    uint64_t waited_ms; /* in this window */
    uint64_t total_ms;  /* waited in all windows */
    uint64_t mark;      /* position at the beginning of this window */
    uint64_t
        idle_ms; /* when the silence began that a wait of the body ended with; 0 = there is none */
};

/* Of a request in a location that has one of the directives. */
struct request_pace {
    struct pace body;
    struct pace send;
};

/* A wait for more of the body begins, which ends at deadline_ms without the rules. Gives the
 * earlier time at which they want to be asked. */
uint64_t pace_body_begins(struct request *request, uint64_t deadline_ms);
/*
 * That wait has ended. False: the client is too slow, which was logged and counted. *is_continued:
 * it has timed out (is_timed_out), but only for the rules; the wait is to be repeated.
 */
bool pace_body_ended(struct request *request, bool is_timed_out, bool *is_continued);

/* A wait for a client that has to take more of the response begins, or continues; the same. */
uint64_t pace_send_begins(struct request *request, uint64_t position, uint64_t deadline_ms);
/* It has ended, or is looked at. False: the client is too slow, which was logged and counted;
 * is_timed_out is set. */
bool pace_send_ended(struct request *request, uint64_t position);
/* Positions of the response have another unit from here on. */
void pace_send_restart(struct request *request);

#endif
