/* A leaky bucket for each key of a zone: how far its requests exceed the rate. */
#ifndef SHARED_LIMIT_BUCKET_H
#define SHARED_LIMIT_BUCKET_H

#include "base/shm_table.h"

/*
 * One request is 60000 units, the number of milliseconds of a minute: at N requests a minute a
 * bucket loses N units each millisecond, so no rate has to be rounded.
 */
#define REQUEST_UNITS 60000
#define REQUESTS_MOST                                                                              \
    1000000000000 /* limit of a burst, and of requests a second: more has no effect */

#define BUCKET_RECORD_SIZE 56 /* bytes of a record in the zone */

/* The units of the bucket with one more request, `elapsed_ms` after it had `before` units;
 * per_minute is the rate. */
uint64_t bucket_excess(uint64_t before, uint64_t elapsed_ms, uint64_t per_minute);

/* How long a request that exceeds the rate must wait, until only `allowed` units are left. */
static inline uint64_t bucket_delay_ms(uint64_t excess, uint64_t allowed, uint64_t per_minute)
{
    return excess <= allowed ? 0 : (excess - allowed) / per_minute;
}

/* Units as thousandths of a request, rounded up, for log lines. */
static inline uint64_t bucket_thousandths(uint64_t units)
{
    return (units + REQUEST_UNITS / 1000 - 1) / (REQUEST_UNITS / 1000);
}

/* Converts "5r/s", "30r/m" or "5" (per second) to requests a minute; at least 1. */
bool bucket_parse_rate(struct str text, uint64_t *per_minute);

/* A request of this key, and its result. */
struct bucket_ask {
    struct shm_key key;
    uint64_t per_minute; /* the rate */
    uint64_t burst;      /* most units in the bucket */
    uint64_t now_ms;     /* monotonic */
    uint64_t excess;     /* result: units that the bucket would have, or has, with this request */
    bool is_shared;      /* other nodes need the counted requests, and refusals: see bucket_since */
    bool is_listed; /* result for a shared one: it is listed since the last bucket_since already */
};

/* May the request pass? If so, and with `counts`, it is counted. */
bool bucket_take(struct shm_table *table, struct bucket_ask *ask, bool counts);

/* The buckets are shared from now on: drops counts of an earlier time when they were shared, which
 * no other node expects. */
void bucket_share_begin(struct shm_table *table);

/* The units that the bucket has now; 0 for a key without a bucket. */
uint64_t bucket_held(struct shm_table *table, const struct bucket_ask *ask);

/* The units of a bucket that will be empty after this number of microseconds; 0 if it is empty
   already. */
uint64_t bucket_units_of(int64_t from_now_us, uint64_t per_minute);

/*
 * The units that were counted for other nodes since the last call; starts a new count. The units of
 * a bucket that was replaced by another key's are lost.
 */
uint64_t bucket_since(struct shm_table *table, const struct shm_key *key);

/*
 * Sets a bucket to what all nodes have counted: it will be empty after this number of microseconds
 * (or has been for that long), and has `more` units in addition, and those that bucket_since would
 * give.
 */
void bucket_set(struct shm_table *table, const struct bucket_ask *ask, int64_t from_now_us,
                uint64_t more);

/* Counts a request that passes regardless of the bucket. */
void bucket_count(struct shm_table *table, struct bucket_ask *ask);

#endif
