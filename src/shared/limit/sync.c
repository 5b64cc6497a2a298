/* Buckets that several nodes share through a store. docs/scaling-out.md describes keys, values and
 * the two scripts. */
#include "shared/limit/sync.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/parse.h"
#include "fiber/fiber.h"
#include "server/generation.h"
#include "store/resp.h"

enum {
    EXCHANGE_MS = 500, /* for the reply to an exchange, for which no request waits */
    BATCH_MOST = 500,  /* keys of one script call */
    INTERVAL_MS = 50,  /* between two exchanges, without `sync_interval` */
    OVERDUE_MS = 1000, /* units that are owed for longer were counted while the store was down */
    SHAPE = 2,         /* version of the values: 1 had a key for each client */
    LOCK_MOST = 64,    /* keys that are processed while a lock is held */
    HASHES = 3,        /* of a zone: for this period, the last one and the one before */
    PERIOD_LEAST_S = 4,
    PERIOD_MOST_S = 1 << 30,
    /* Number of nodes that limits are computed for: the requests that a bucket accepts in an
       interval, and the keys of a hash. */
    NODES_USUAL = 20,
};

/* A key for the next exchange: units that this node has counted and the store does not know, in
 * addition to those of bucket_since. */
struct owed {
    struct shm_record record; /* with the key of the bucket */
    struct shm_key name;      /* name in the store */
    uint64_t units;
    uint64_t per_minute;
    uint64_t since_ms;
};

/* The head of the table. */
struct owed_head {
    uint64_t is_begun; /* buckets are marked as shared */
};

static const char memory_tag;

/* ---- the configuration ---- */

struct bucket_sync *bucket_sync_new(struct conf *conf, struct conf_node *node,
                                    const struct limit_zone *zone,
                                    const struct store_sync_words *words)
{
    struct bucket_sync *sync = arena_new(conf->arena, struct bucket_sync);

    sync->zone = zone;
    sync->is_strict = words->is_strict;
    sync->interval_ms = words->interval_ms == 0 ? INTERVAL_MS : words->interval_ms;
    sync->store = store_named(conf, node, words->store);
    if (sync->store == NULL) {
        return NULL;
    }
    sync->memory =
        generation_zone(conf->generation, node,
                        arena_printf(conf->arena, "%.*s sync", STR_ARG(zone->zone->name)),
                        zone->zone->size, &memory_tag);
    if (sync->memory == NULL) {
        return NULL;
    }
    sync->owed = shm_table_of(sync->memory, sizeof(struct owed), sizeof(struct owed_head));
    if (sync->owed == NULL) {
        conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(zone->zone->name));
        return NULL;
    }
    struct owed_head *head = shm_table_head(sync->owed);
    if (!head->is_begun) {
        bucket_share_begin(zone->table); /* other zones may have listed them before a reload */
        head->is_begun = 1;
    }
    return sync;
}

/* ---- units that the store does not know ---- */

static bool owed_add(const struct bucket_sync *sync, const struct bucket_ask *ask,
                     const struct shm_key *name)
{
    shm_table_lock(sync->owed);
    struct owed *owed = shm_table_find(sync->owed, &ask->key);
    if (owed == NULL) {
        owed = shm_table_add(sync->owed, &ask->key);
        if (owed != NULL) {
            owed->name = *name;
            owed->since_ms = ask->now_ms;
        }
    }
    if (owed != NULL) {
        owed->per_minute = ask->per_minute;
    }
    shm_table_unlock(sync->owed);
    return owed != NULL;
}

void bucket_sync_note(const struct bucket_sync *sync, const struct bucket_ask *ask,
                      struct variable_env *env)
{
    struct shm_key name;

    if (ask->is_listed) {
        return;
    }
    limit_zone_name(sync->zone, env, sync->secret, &name);
    if (!owed_add(sync, ask, &name)) {
        bucket_since(sync->zone->table, &ask->key); /* full: only this node knows them */
    }
}

/* Takes up to BATCH_MOST keys, the oldest first. */
static size_t owed_take(const struct bucket_sync *sync, struct owed *batch)
{
    size_t count = 0;
    bool is_empty = false;

    while (count < BATCH_MOST && !is_empty) {
        shm_table_lock(sync->owed);
        for (unsigned i = 0; i < LOCK_MOST && count < BATCH_MOST; i++) {
            struct owed *oldest = shm_table_oldest(sync->owed);
            if (oldest == NULL) {
                is_empty = true;
                break;
            }
            batch[count++] = *oldest;
            shm_table_drop(sync->owed, oldest);
        }
        shm_table_unlock(sync->owed);
    }
    for (size_t i = 0; i < count; i++) {
        batch[i].units += bucket_since(sync->zone->table, &batch[i].record.key);
    }
    return count;
}

/*
 * The store did not accept the batch. Units that were counted a while ago have drained in part: at
 * most the units that the bucket has now are kept.
 */
static void owed_put_back(const struct bucket_sync *sync, const struct owed *batch, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct owed *from = &batch[i];
        uint64_t units = from->units;

        if (clock_now.now_ms - from->since_ms > OVERDUE_MS) {
            struct bucket_ask ask = {.key = from->record.key,
                                     .per_minute = from->per_minute,
                                     .now_ms = clock_now.now_ms};
            uint64_t held = bucket_held(sync->zone->table, &ask);
            units = units < held ? units : held;
        }
        if (units == 0) {
            continue;
        }
        shm_table_lock(sync->owed);
        struct owed *owed = shm_table_find(sync->owed, &from->record.key);
        if (owed == NULL) {
            owed = shm_table_add(sync->owed, &from->record.key);
        }
        if (owed != NULL) {
            owed->units += units;
            owed->name = from->name;
            owed->per_minute = owed->per_minute == 0 ? from->per_minute : owed->per_minute;
            owed->since_ms = from->since_ms;
        }
        shm_table_unlock(sync->owed);
    }
}

static uint64_t owed_units(const struct bucket_sync *sync, const struct shm_key *key)
{
    shm_table_lock(sync->owed);
    const struct owed *owed = shm_table_find(sync->owed, key);
    uint64_t units = owed == NULL ? 0 : owed->units;
    shm_table_unlock(sync->owed);
    return units;
}

/* ---- the store ---- */

/*
 * A value is the time, in microseconds of the store's clock, at which the bucket will be empty, as
 * in GCRA. So nodes need no common clock.
 *
 * The buckets of a zone are fields of hashes, so that one command reads or writes all buckets of a
 * call. Time is divided into periods; values are written to the hash of the present period, and
 * read from it and the two others. No value is needed for longer than a period. The hash of the
 * period before the last one is deleted in the second half of a period, without waiting, or
 * expires. A full hash replaces that of the last period, so that clients with always new keys do
 * not fill the store. KEYS: the three hashes. ARGV[1]: microseconds of a period, ARGV[2]: most
 * fields of a hash.
 */
#define BUCKETS                                                                                    \
    "local time = redis.call('TIME')\n"                                                            \
    "local now = time[1] * 1000000 + time[2]\n"                                                    \
    "local period = tonumber(ARGV[1])\n"                                                           \
    "local number = (now - now % period) / period\n"                                               \
    "local function read(fields)\n"                                                                \
    "  local ends = {}\n"                                                                          \
    "  for _, key in ipairs(KEYS) do\n"                                                            \
    "    for i, value in ipairs(redis.call('HMGET', key, unpack(fields))) do\n"                    \
    "      ends[i] = math.max(ends[i] or 0, tonumber(value or '0') or 0)\n"                        \
    "    end\n"                                                                                    \
    "  end\n"                                                                                      \
    "  return ends\n"                                                                              \
    "end\n"                                                                                        \
    "local function write(pairs)\n"                                                                \
    "  local key, old, last = KEYS[number % 3 + 1], KEYS[(number + 1) % 3 + 1]\n"                  \
    "  if redis.call('HLEN', key) >= tonumber(ARGV[2]) then\n"                                     \
    "    last = KEYS[(number + 2) % 3 + 1]\n"                                                      \
    "    redis.call('UNLINK', last)\n"                                                             \
    "    redis.call('RENAME', key, last)\n"                                                        \
    "    redis.call('PEXPIREAT', last, string.format('%.0f', (number + 2) * period / 1000))\n"     \
    "  end\n"                                                                                      \
    "  redis.call('HSET', key, unpack(pairs))\n"                                                   \
    "  redis.call('PEXPIREAT', key, string.format('%.0f', (number + 3) * period / 1000))\n"        \
    "  if now % period > period / 2 then redis.call('UNLINK', old) end\n"                          \
    "end\n"

/*
 * A bucket that was empty starts one request and one interval before now: requests since then have
 * drained. ARGV: as above, an interval in microseconds; then for each bucket its field, and the
 * microseconds of the counted units and of one request. Gives for each the difference between its
 * time and now.
 */
static struct store_script exchange_script = {
    .text = BUCKETS "local interval = tonumber(ARGV[3])\n"
                    "local fields, changed = {}, {}\n"
                    "for i = 4, #ARGV, 3 do fields[#fields + 1] = ARGV[i] end\n"
                    "local ends = read(fields)\n"
                    "for i, field in ipairs(fields) do\n"
                    "  local count, one = tonumber(ARGV[3 * i + 2]), tonumber(ARGV[3 * i + 3])\n"
                    "  if count > 0 then\n"
                    "    ends[i] = math.max(ends[i], now - one - interval) + count\n"
                    "    ends[i] = math.min(ends[i], now + period)\n"
                    "    changed[#changed + 1] = field\n"
                    "    changed[#changed + 1] = string.format('%.0f', ends[i])\n"
                    "  end\n"
                    "  ends[i] = math.ceil(ends[i] - now)\n"
                    "end\n"
                    "if #changed > 0 then write(changed) end\n"
                    "return ends"};

/*
 * ARGV: as above, the field of the bucket, microseconds of a request and of the burst; 1: the
 * request is counted. Gives {may pass, difference between its time and now}.
 */
static struct store_script strict_script = {
    .text = BUCKETS "local one, burst = tonumber(ARGV[4]), tonumber(ARGV[5])\n"
                    "local ends = math.max(read({ARGV[3]})[1], now - one)\n"
                    "ends = math.min(ends, now + period) + one\n"
                    "if ends - now > burst then return {0, math.ceil(ends - now)} end\n"
                    "if ARGV[6] == '1' then write({ARGV[3], string.format('%.0f', ends)}) end\n"
                    "return {1, math.ceil(ends - now)}"};

/* Units as the microseconds that they need to drain, with three decimals. */
static struct str microseconds(struct arena *arena, uint64_t units, uint64_t per_minute)
{
    return arena_printf(arena, "%.3f", (double) units * 1000.0 / (double) per_minute);
}

/* A period in seconds: twice the time that a full bucket needs to drain, plus what nodes may count
 * in addition before they know of each other. */
static uint64_t period_s(const struct bucket_sync *sync, uint64_t per_minute)
{
    double wanted_s = 2.0 * (double) (sync->burst + REQUEST_UNITS) / 1000.0 / (double) per_minute +
                      NODES_USUAL * (double) sync->interval_ms / 1000.0;
    uint64_t seconds = PERIOD_LEAST_S;

    while ((double) seconds < wanted_s && seconds < PERIOD_MOST_S) {
        seconds *= 2;
    }
    return seconds;
}

/* The first arguments of both scripts. */
static struct str period_text(struct arena *arena, uint64_t seconds)
{
    return arena_printf(arena, "%llu", (unsigned long long) seconds * 1000000);
}

static struct str most_fields(const struct bucket_sync *sync, struct arena *arena)
{
    return arena_printf(arena, "%llu",
                        (unsigned long long) NODES_USUAL * shm_table_capacity(sync->owed));
}

static struct str field_of(struct arena *arena, const struct shm_key *name)
{
    return arena_printf(arena, "%016llx%016llx", (unsigned long long) name->words[0],
                        (unsigned long long) name->words[1]);
}

/* The hashes of buckets with the same period. */
static void hashes_of(const struct bucket_sync *sync, struct arena *arena, uint64_t seconds,
                      struct str keys[HASHES])
{
    for (unsigned i = 0; i < HASHES; i++) {
        const struct store_key key = {.version = SHAPE,
                                      .purpose = "limit_req",
                                      .zone = sync->zone->zone->name,
                                      .item = arena_printf(arena, "%llus:%u",
                                                           (unsigned long long) seconds, i)};
        keys[i] = store_key_text(sync->store, arena, &key);
    }
}

/* Sets the bucket to what all nodes have counted, plus what this one has counted since then. */
static void take_result(const struct bucket_sync *sync, const struct owed *owed, int64_t from_now)
{
    struct bucket_ask ask = {.key = owed->record.key,
                             .per_minute = owed->per_minute,
                             .now_ms = clock_now.now_ms};

    bucket_set(sync->zone->table, &ask, from_now, owed_units(sync, &ask.key));
}

/*
 * One script call, for buckets with the same period. MAY WAIT. False: the store did not accept it.
 * If the reply does not come in time, the command counts as done: to count twice again and again
 * would refuse requests when a store is only slow.
 */
static bool exchange(const struct bucket_sync *sync, struct arena *arena, const struct owed *batch,
                     size_t count)
{
    const struct store_call call = {.store = sync->store,
                                    .arena = arena,
                                    .deadline_ms = clock_now.now_ms + EXCHANGE_MS};
    uint64_t seconds = period_s(sync, batch->per_minute);
    struct str keys[HASHES];
    struct str *args = arena_array(arena, 3 + 3 * count, sizeof(*args));
    const struct store_words key_words = {keys, HASHES}, arg_words = {args, 3 + 3 * count};
    struct str reply;

    hashes_of(sync, arena, seconds, keys);
    args[0] = period_text(arena, seconds);
    args[1] = most_fields(sync, arena);
    args[2] = arena_printf(arena, "%llu", (unsigned long long) sync->interval_ms * 1000);
    for (size_t i = 0; i < count; i++) {
        const struct owed *owed = &batch[i];

        args[3 + 3 * i] = field_of(arena, &owed->name);
        args[4 + 3 * i] = microseconds(arena, owed->units, owed->per_minute);
        args[5 + 3 * i] = microseconds(arena, REQUEST_UNITS, owed->per_minute);
    }
    enum store_result result = store_run(&call, &exchange_script, &key_words, &arg_words, &reply);
    if (result != STORE_OK || resp_next_list(&reply) != (int64_t) count) {
        return result == STORE_TIMED_OUT;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t from_now;
        if (!resp_next_integer(&reply, &from_now)) {
            return true; /* the units were counted */
        }
        take_result(sync, &batch[i], from_now);
    }
    return true;
}

/* Moves the keys with the same period as the first one to the front. Gives their number. */
static size_t gather(const struct bucket_sync *sync, struct owed *batch, size_t count)
{
    uint64_t seconds = period_s(sync, batch->per_minute);
    size_t same = 1;

    for (size_t i = 1; i < count; i++) {
        if (batch[i].per_minute == batch->per_minute ||
            period_s(sync, batch[i].per_minute) == seconds) {
            struct owed one = batch[i];
            batch[i] = batch[same];
            batch[same++] = one;
        }
    }
    return same;
}

/* MAY WAIT. False: the store did not accept all; the remainder is put back. */
static bool exchange_batch(const struct bucket_sync *sync, struct arena *arena, struct owed *batch,
                           size_t count)
{
    while (count > 0) {
        size_t same = gather(sync, batch, count);
        if (!exchange(sync, arena, batch, same)) {
            owed_put_back(sync, batch, count);
            return false;
        }
        batch += same;
        count -= same;
    }
    return true;
}

/* Exchanges everything that is owed now, or as much as the store accepts. MAY WAIT. */
static void exchange_all(const struct bucket_sync *sync)
{
    size_t count = BATCH_MOST;

    for (uint32_t done = 0; count == BATCH_MOST && done < shm_table_capacity(sync->owed);
         done += BATCH_MOST) {
        struct arena arena;

        arena_init(&arena);
        struct owed *batch = arena_array(&arena, BATCH_MOST, sizeof(*batch));
        count = owed_take(sync, batch);
        if (!exchange_batch(sync, &arena, batch, count)) {
            count = 0;
        }
        arena_free(&arena);
    }
}

static void exchange_run(void *arg)
{
    struct bucket_sync *sync = arg;

    sync->fiber = fiber_self();
    while (fiber_sleep(clock_now.now_ms + sync->interval_ms) != WAIT_CANCELLED) {
        fiber_shield_begin(); /* a reload does not interrupt an exchange */
        exchange_all(sync);
        fiber_shield_end();
    }
    sync->fiber = NULL;
}

void bucket_sync_prepare(struct bucket_sync *sync)
{
    store_secret(sync->store, STR("limit_req"), sync->zone->zone->name, sync->secret);
}

void bucket_sync_start(struct bucket_sync *sync)
{
    if (fiber_start(exchange_run, sync, NULL) == FIBER_NO_STACK) {
        log_alert(log_main, 0, "zone \"%.*s\" is not synchronized",
                  STR_ARG(sync->zone->zone->name));
    }
}

void bucket_sync_end(struct bucket_sync *sync)
{
    if (sync->fiber != NULL) {
        fiber_cancel(sync->fiber);
    }
}

/* ---- a strict zone ---- */

/* The decision of a store about a request. */
struct verdict {
    bool may_pass;
    int64_t from_now; /* microseconds until the bucket is empty */
};

/* MAY WAIT. */
static enum store_result ask_store(const struct bucket_sync *sync, const struct bucket_ask *ask,
                                   bool counts, struct str field, struct arena *arena,
                                   struct verdict *verdict)
{
    const struct store_call call = {.store = sync->store, .arena = arena};
    uint64_t seconds = period_s(sync, ask->per_minute);
    struct str keys[HASHES];
    const struct str args[] = {period_text(arena, seconds),
                               most_fields(sync, arena),
                               field,
                               microseconds(arena, REQUEST_UNITS, ask->per_minute),
                               microseconds(arena, ask->burst, ask->per_minute),
                               counts ? STR("1") : STR("0")};
    const struct store_words key_words = {keys, HASHES}, words = {args, 6};
    struct str reply;
    int64_t passes;

    hashes_of(sync, arena, seconds, keys);
    enum store_result result = store_run(&call, &strict_script, &key_words, &words, &reply);

    if (result != STORE_OK) {
        return result;
    }
    if (resp_next_list(&reply) != 2 || !resp_next_integer(&reply, &passes) ||
        !resp_next_integer(&reply, &verdict->from_now)) {
        return STORE_REFUSED;
    }
    verdict->may_pass = passes == 1;
    return STORE_OK;
}

bool bucket_sync_take(const struct bucket_sync *sync, struct bucket_ask *ask, bool counts,
                      struct variable_env *env, struct arena *arena)
{
    struct shm_key name;
    struct verdict verdict;

    limit_zone_name(sync->zone, env, sync->secret, &name);
    struct str field = field_of(arena, &name);
    if (ask_store(sync, ask, counts, field, arena, &verdict) != STORE_OK) {
        ask->now_ms = clock_now.now_ms;
        bool may_pass = bucket_take(sync->zone->table, ask, counts);
        if (may_pass && counts) {
            bucket_sync_note(sync, ask, env);
        }
        return may_pass;
    }
    ask->now_ms = clock_now.now_ms;
    ask->excess = bucket_units_of(verdict.from_now, ask->per_minute);
    if (verdict.may_pass && counts) {
        bucket_set(sync->zone->table, ask, verdict.from_now, 0);
    }
    return verdict.may_pass;
}
