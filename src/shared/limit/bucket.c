/* A leaky bucket for each key of a zone: how far its requests exceed the rate. */
#include "shared/limit/bucket.h"

#include "base/parse.h"

/* The bucket of a key. */
struct bucket {
    struct shm_record record;
    uint64_t excess;  /* units that it had at `last_ms` */
    uint64_t last_ms; /* monotonic: when a request was last counted */
};
_Static_assert(sizeof(struct bucket) == BUCKET_RECORD_SIZE, "as the header says");

/* ---- arithmetic ---- */

uint64_t bucket_excess(uint64_t before, uint64_t elapsed_ms, uint64_t per_minute)
{
    uint64_t drained, held = before + REQUEST_UNITS;

    if (__builtin_mul_overflow(elapsed_ms, per_minute, &drained) || drained >= held) {
        return 0;
    }
    return held - drained;
}

bool bucket_parse_rate(struct str text, uint64_t *per_minute)
{
    uint64_t number, scale = 60;

    if (str_ends(text, STR("r/s"))) {
        text.len -= 3;
    } else if (str_ends(text, STR("r/m"))) {
        text.len -= 3;
        scale = 1;
    }
    if (!parse_uint(text, &number) || number == 0) {
        return false;
    }
    *per_minute = (number < REQUESTS_MOST ? number : REQUESTS_MOST) * scale;
    return true;
}

/* ---- the zone; called with the lock held ---- */

/* The clocks of processes differ slightly: time never runs backwards for a bucket. */
static uint64_t elapsed_ms(const struct bucket *bucket, uint64_t now_ms)
{
    return now_ms > bucket->last_ms ? now_ms - bucket->last_ms : 0;
}

/* The units that the bucket would have with this request; a key without a bucket starts with an
   empty one. */
static uint64_t excess_of(const struct bucket *bucket, const struct bucket_ask *ask)
{
    return bucket == NULL
               ? 0
               : bucket_excess(bucket->excess, elapsed_ms(bucket, ask->now_ms), ask->per_minute);
}

/* A bucket for a new key; if the zone is full, it replaces the least recently used one. */
static struct bucket *bucket_add(struct shm_table *table, const struct bucket_ask *ask)
{
    struct bucket *bucket = shm_table_add(table, &ask->key);

    if (bucket == NULL) {
        shm_table_drop(table, shm_table_oldest(table));
        bucket = shm_table_add(table, &ask->key);
    }
    return bucket;
}

/*
 * `spare` of a shared bucket has the number of requests that other nodes do not know, and a flag
 * that it is listed for the next exchange. A process may die before it lists a bucket, so listing
 * is requested again from time to time.
 */
#define LISTED 0x80000000u
#define LIST_AGAIN 1024u /* after this number of requests; a power of two */

enum { LOCK_MOST = 64 }; /* records that are processed while the lock is held */

static void bucket_share(struct bucket *bucket, struct bucket_ask *ask, unsigned requests)
{
    uint32_t spare = bucket->record.spare, count = spare & ~LISTED;

    if (count < LISTED - 1) {
        count += requests;
    }
    ask->is_listed = (spare & LISTED) != 0 && count % LIST_AGAIN != 0;
    bucket->record.spare = count | LISTED;
}

static uint64_t since_units(const struct bucket *bucket)
{
    return (uint64_t) (bucket->record.spare & ~LISTED) * REQUEST_UNITS;
}

static void bucket_put(struct shm_table *table, struct bucket *bucket, struct bucket_ask *ask,
                       uint64_t excess)
{
    if (bucket == NULL) {
        bucket = bucket_add(table, ask);
    } else {
        shm_table_touch(table, bucket);
    }
    bucket->excess = excess;
    bucket->last_ms += elapsed_ms(bucket, ask->now_ms);
    if (ask->is_shared) {
        bucket_share(bucket, ask, 1);
    }
}

/* ---- requests ---- */

bool bucket_take(struct shm_table *table, struct bucket_ask *ask, bool counts)
{
    shm_table_lock(table);
    struct bucket *bucket = shm_table_find(table, &ask->key);
    ask->excess = excess_of(bucket, ask);
    bool may_pass = ask->excess <= ask->burst;
    if (may_pass && counts) {
        bucket_put(table, bucket, ask, ask->excess);
    } else if (!may_pass && ask->is_shared && bucket != NULL) {
        bucket_share(bucket, ask, 0);
    }
    shm_table_unlock(table);
    return may_pass;
}

void bucket_count(struct shm_table *table, struct bucket_ask *ask)
{
    shm_table_lock(table);
    struct bucket *bucket = shm_table_find(table, &ask->key);
    bucket_put(table, bucket, ask, excess_of(bucket, ask));
    shm_table_unlock(table);
}

/* ---- buckets that are shared with other nodes ---- */

void bucket_share_begin(struct shm_table *table)
{
    for (uint32_t first = 0, count = 1; first < count; first += LOCK_MOST) {
        shm_table_lock(table);
        count = shm_table_count(table);
        for (uint32_t i = first; i < count && i - first < LOCK_MOST; i++) {
            ((struct bucket *) shm_table_at(table, i))->record.spare = 0;
        }
        shm_table_unlock(table);
    }
}

uint64_t bucket_since(struct shm_table *table, const struct shm_key *key)
{
    uint64_t units = 0;

    shm_table_lock(table);
    struct bucket *bucket = shm_table_find(table, key);
    if (bucket != NULL) {
        units = since_units(bucket);
        bucket->record.spare = 0;
    }
    shm_table_unlock(table);
    return units;
}

uint64_t bucket_held(struct shm_table *table, const struct bucket_ask *ask)
{
    uint64_t drained, held = 0;

    shm_table_lock(table);
    const struct bucket *bucket = shm_table_find(table, &ask->key);
    if (bucket != NULL &&
        !__builtin_mul_overflow(elapsed_ms(bucket, ask->now_ms), ask->per_minute, &drained)) {
        held = drained < bucket->excess ? bucket->excess - drained : 0;
    }
    shm_table_unlock(table);
    return held;
}

uint64_t bucket_units_of(int64_t from_now_us, uint64_t per_minute)
{
    double units = (double) from_now_us / 1000.0 * (double) per_minute;
    double most = (double) REQUESTS_MOST * REQUEST_UNITS;

    return units <= 0 ? 0 : (uint64_t) (units < most ? units : most);
}

void bucket_set(struct shm_table *table, const struct bucket_ask *ask, int64_t from_now_us,
                uint64_t more)
{
    uint64_t empty_ms = from_now_us < 0 ? (uint64_t) - (from_now_us + 1) / 1000 : 0;

    shm_table_lock(table);
    struct bucket *bucket = shm_table_find(table, &ask->key);
    if (bucket == NULL) {
        bucket = bucket_add(table, ask);
    }
    bucket->excess = bucket_units_of(from_now_us, ask->per_minute) + more + since_units(bucket);
    bucket->last_ms = ask->now_ms - (empty_ms < ask->now_ms ? empty_ms : ask->now_ms);
    shm_table_unlock(table);
}
