/* Groups whose balancer is a program: it says of each attempt where the request goes, to whomever
 * it likes. Implemented in worker/run_time.c. */
#ifndef UPSTREAM_BALANCER_DECISION_H
#define UPSTREAM_BALANCER_DECISION_H

#include <stdbool.h>
#include <stdint.h>

#include "net/addr/addr.h"
#include "upstream/upstream.h"

/* What such a program says about one request. In the request's arena; pick->decision. */
struct balancer_decision {
    struct upstream_group *director; /* whose balancer it is */

    /* Which of the director's servers had an attempt, while another group is picked from. */
    uint64_t *tried; /* as pick->tried */
    uint64_t tried_few;
    unsigned tried_list; /* number of the list that they are of */

    /* Of the attempt that comes; cleared before each. */
    struct upstream_group
        *target; /* of upstream_directed; NULL: the director's own servers are asked */
    unsigned
        refusal; /* no peer is asked, and the request ends with this status; 0 = it continues */

    /* Of all that follow. */
    unsigned more_tries;         /* that are allowed after this one */
    bool has_local;              /* local holds */
    struct addr local;           /* our own address; port 0 = any */
    int tls;                     /* 1: TLS is spoken, -1: not, 0: as it is configured */
    struct str host;             /* the name in TLS; empty = as it is configured */
    uint64_t connect_timeout_ms; /* 0 = as it is configured, as those below */
    uint64_t send_timeout_ms;
    uint64_t read_timeout_ms;
    bool makes_request; /* the next attempt sends a request that is made again */

    /* What the protocol says. */
    uint64_t tries_most; /* of *_next_upstream_tries; 0 = no limit */
    unsigned
        failed_status; /* how the attempt before ended; 0 = it had no answer, or is of stream */
    bool has_failed;   /* there was one */
    bool was_fair;     /* the peer is not to blame for the failure: 403, 404 */
};

/*
 * A group of this one address, which has the director's settings for idle connections. It lives as
 * those that are made at run time do.
 */
struct upstream_group *upstream_directed(struct upstream_group *director, const struct addr *addr);

/* Of a protocol: the attempt failed like this. */
static inline void balancer_decision_failed(struct balancer_decision *decision, unsigned status,
                                            bool was_fair)
{
    if (decision != NULL) {
        decision->has_failed = true;
        decision->failed_status = status;
        decision->was_fair = was_fair;
    }
}

#endif
