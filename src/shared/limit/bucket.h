/* A leaky bucket for each key of a zone: how far its requests are ahead of the rate. */
#ifndef SHARED_LIMIT_BUCKET_H
#define SHARED_LIMIT_BUCKET_H

#include "base/shm_table.h"

/*
 * A request is as many units as a minute has milliseconds: at N requests a minute a bucket loses N
 * units each millisecond, so that no rate has to be rounded.
 */
#define REQUEST_UNITS 60000
#define REQUESTS_MOST 1000000000000 /* of a burst, or a second: more is the same as no limit */

#define BUCKET_RECORD_SIZE 56 /* bytes of a record in the zone */

/* What the bucket holds with one request more, `elapsed_ms` after it held `before`; per_minute is
 * the rate. */
uint64_t bucket_excess(uint64_t before, uint64_t elapsed_ms, uint64_t per_minute);

/* For how long a request must wait that exceeds the rate by so much: until `allowed` units are
 * left. */
static inline uint64_t bucket_delay_ms(uint64_t excess, uint64_t allowed, uint64_t per_minute)
{
    return excess <= allowed ? 0 : (excess - allowed) / per_minute;
}

/* Units as thousandths of a request, rounded up, as log lines tell them. */
static inline uint64_t bucket_thousandths(uint64_t units)
{
    return (units + REQUEST_UNITS / 1000 - 1) / (REQUEST_UNITS / 1000);
}

/* "5r/s", "30r/m" or "5" (a second) to requests a minute; at least 1. */
bool bucket_parse_rate(struct str text, uint64_t *per_minute);

/* A request of this key: what is asked, and what came of it. */
struct bucket_ask {
    struct shm_key key;
    uint64_t per_minute; /* the rate */
    uint64_t burst;      /* units that the bucket may hold */
    uint64_t now_ms;     /* monotonic */
    uint64_t excess;     /* out: units that it would hold, or holds, with this request */
    bool is_shared;      /* others have to know of what is counted, and of refusals: bucket_since */
    bool is_listed;      /* out, of a shared one: it is so already since the last bucket_since */
};

/* May the request pass? If so, and `counts`, it is counted. */
bool bucket_take(struct shm_table *table, struct bucket_ask *ask, bool counts);

/* These buckets are shared from now on: what they held in former times, when they were so already,
 * is nothing that others wait for. */
void bucket_share_begin(struct shm_table *table);

/* What the bucket holds now; a key without one: 0. */
uint64_t bucket_held(struct shm_table *table, const struct bucket_ask *ask);

/* Units that a bucket holds which is empty in so many microseconds; one that has been empty: 0. */
uint64_t bucket_units_of(int64_t from_now_us, uint64_t per_minute);

/*
 * Units that were counted for others since the last call, and from now on those that come next. A
 * bucket that another key displaced has lost them.
 */
uint64_t bucket_since(struct shm_table *table, const struct shm_key *key);

/*
 * Others know what the bucket holds: it is empty in so many microseconds (or has been since that
 * many), and has `more` units besides, and what bucket_since would give.
 */
void bucket_set(struct shm_table *table, const struct bucket_ask *ask, int64_t from_now_us,
                uint64_t more);

/* It passes, whatever the bucket holds by now. */
void bucket_count(struct shm_table *table, struct bucket_ask *ask);

#endif
