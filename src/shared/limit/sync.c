/* Buckets that several nodes share by a store. docs/scaling-out.md describes keys, values and the two scripts. */
#include "shared/limit/sync.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/parse.h"
#include "fiber/fiber.h"
#include "server/generation.h"
#include "store/resp.h"

enum {
    EXCHANGE_MS = 500,    /* for the reply to an exchange, for which no request waits */
    BATCH_MOST = 500,     /* keys of one script call */
    INTERVAL_MS = 50,     /* between two exchanges, where `sync_interval` is not written */
    OVERDUE_MS = 1000,    /* what is owed for longer was counted while the store was gone */
    SHAPE = 1,            /* version of the values */
    LOCK_MOST = 64,       /* keys that are handled while a lock is held */
    NAME_LENGTH = 32,     /* hexadecimal digits of a key's name */
    OVERSHOOT_MS = 60000, /* beyond the burst: what nodes count before they know of each other */
};

/* A key that is exchanged next: what this node counted, beside what its bucket has since the last exchange, and the store does not know. */
struct owed {
    struct shm_record record; /* with the key of the bucket */
    struct shm_key name;      /* in the store */
    uint64_t units;
    uint64_t per_minute;
    uint64_t since_ms;
};

/* The head of the table. */
struct owed_head {
    uint64_t is_begun; /* buckets know of it */
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
        bucket_share_begin(zone->table); /* a former configuration may have listed them elsewhere */
        head->is_begun = 1;
    }
    return sync;
}

/* ---- what is owed ---- */

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
        bucket_since(sync->zone->table, &ask->key); /* a full table: this node alone knows */
    }
}

/* Takes up to BATCH_MOST keys, those that have waited longest first. */
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
 * The store did not take it. What was counted a while ago has drained in part: more than the bucket of this node holds is not
 * owed any more.
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
 * A value is the time, in microseconds of the store's clock, at which the bucket will be empty: as GCRA has it. So nodes need no
 * clock in common. A bucket that was empty begins one request and one interval before now: what came since then has drained.
 * KEYS: buckets. ARGV: microseconds of an interval; then for each bucket microseconds of what was counted, of one request,
 * and the most that it holds. Gives for each how far its time is from now.
 */
static struct store_script exchange_script = {
    .text = "local time = redis.call('TIME')\n"
            "local now = time[1] * 1000000 + time[2]\n"
            "local interval = tonumber(ARGV[1])\n"
            "local values = redis.call('MGET', unpack(KEYS))\n"
            "for i, key in ipairs(KEYS) do\n"
            "  local count = tonumber(ARGV[3 * i - 1])\n"
            "  local one = tonumber(ARGV[3 * i])\n"
            "  local most = tonumber(ARGV[3 * i + 1])\n"
            "  local ends = tonumber(values[i] or '0') or 0\n"
            "  if count > 0 then\n"
            "    ends = math.min(math.max(ends, now - one - interval) + count, now + most)\n"
            "    local ttl = math.ceil((math.max(ends - now, 0) + one + interval) / 1000) + 1000\n"
            "    redis.call('SET', key, string.format('%.0f', ends), 'PX', ttl)\n"
            "  end\n"
            "  values[i] = math.ceil(ends - now)\n"
            "end\n"
            "return values"};

/* KEYS: the bucket. ARGV: microseconds of a request and of the burst; 1: it is counted. Gives {may pass, how far its time is from now}. */
static struct store_script strict_script = {
    .text = "local time = redis.call('TIME')\n"
            "local now = time[1] * 1000000 + time[2]\n"
            "local one, burst = tonumber(ARGV[1]), tonumber(ARGV[2])\n"
            "local ends = tonumber(redis.call('GET', KEYS[1]) or '0') or 0\n"
            "ends = math.min(math.max(ends, now - one), now + burst + 60000000) + one\n"
            "if ends - now > burst then return {0, math.ceil(ends - now)} end\n"
            "if ARGV[3] == '1' then\n"
            "  local ttl = math.ceil((math.max(ends - now, 0) + one) / 1000) + 1000\n"
            "  redis.call('SET', KEYS[1], string.format('%.0f', ends), 'PX', ttl)\n"
            "end\n"
            "return {1, math.ceil(ends - now)}"};

/* Units as microseconds that they need to drain, with three digits more. */
static struct str microseconds(struct arena *arena, uint64_t units, uint64_t per_minute)
{
    return arena_printf(arena, "%.3f", (double) units * 1000.0 / (double) per_minute);
}

static struct str name_of(const struct bucket_sync *sync, struct arena *arena,
                          const struct shm_key *name)
{
    char text[NAME_LENGTH + 1];

    snprintf(text, sizeof(text), "%016llx%016llx", (unsigned long long) name->words[0],
             (unsigned long long) name->words[1]);
    const struct store_key key = {.version = SHAPE,
                                  .purpose = "limit_req",
                                  .zone = sync->zone->zone->name,
                                  .item = {text, NAME_LENGTH}};
    return store_key_text(sync->store, arena, &key);
}

/* What all nodes have counted, and what this one counted since then, is what the bucket holds. */
static void take_result(const struct bucket_sync *sync, const struct owed *owed, int64_t from_now)
{
    struct bucket_ask ask = {.key = owed->record.key,
                             .per_minute = owed->per_minute,
                             .now_ms = clock_now.now_ms};

    bucket_set(sync->zone->table, &ask, from_now, owed_units(sync, &ask.key));
}

/*
 * One script call. MAY WAIT. False: the store did not take it. A reply that did not come in time says nothing: the command is
 * taken for done, since counting twice again and again would refuse requests where a store is only slow.
 */
static bool exchange(const struct bucket_sync *sync, struct arena *arena, const struct owed *batch,
                     size_t count)
{
    const struct store_call call = {.store = sync->store,
                                    .arena = arena,
                                    .deadline_ms = clock_now.now_ms + EXCHANGE_MS};
    struct str *keys = arena_array(arena, count, sizeof(*keys));
    struct str *args = arena_array(arena, 1 + 3 * count, sizeof(*args));
    const struct store_words key_words = {keys, count}, arg_words = {args, 1 + 3 * count};
    struct str reply;

    args[0] = arena_printf(arena, "%llu", (unsigned long long) sync->interval_ms * 1000);
    for (size_t i = 0; i < count; i++) {
        const struct owed *owed = &batch[i];
        uint64_t most = sync->burst + owed->per_minute * OVERSHOOT_MS;

        keys[i] = name_of(sync, arena, &owed->name);
        args[1 + 3 * i] = microseconds(arena, owed->units, owed->per_minute);
        args[2 + 3 * i] = microseconds(arena, REQUEST_UNITS, owed->per_minute);
        args[3 + 3 * i] = microseconds(arena, most, owed->per_minute);
    }
    enum store_result result = store_run(&call, &exchange_script, &key_words, &arg_words, &reply);
    if (result != STORE_OK || resp_next_list(&reply) != (int64_t) count) {
        return result == STORE_TIMED_OUT;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t from_now;
        if (!resp_next_integer(&reply, &from_now)) {
            return true; /* it was counted */
        }
        take_result(sync, &batch[i], from_now);
    }
    return true;
}

/* All that is owed now, or as much as the store takes. MAY WAIT. */
static void exchange_all(const struct bucket_sync *sync)
{
    size_t count = BATCH_MOST;

    for (uint32_t done = 0; count == BATCH_MOST && done < shm_table_capacity(sync->owed);
         done += BATCH_MOST) {
        struct arena arena;

        arena_init(&arena);
        struct owed *batch = arena_array(&arena, BATCH_MOST, sizeof(*batch));
        count = owed_take(sync, batch);
        if (count != 0 && !exchange(sync, &arena, batch, count)) {
            owed_put_back(sync, batch, count);
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
        fiber_shield_begin(); /* a reload does not interrupt what has been sent */
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

/* What a store says about a request. */
struct verdict {
    bool may_pass;
    int64_t from_now; /* microseconds until the bucket is empty */
};

/* MAY WAIT. */
static enum store_result ask_store(const struct bucket_sync *sync, const struct bucket_ask *ask,
                                   bool counts, struct str key, struct arena *arena,
                                   struct verdict *verdict)
{
    const struct store_call call = {.store = sync->store, .arena = arena};
    const struct str args[] = {microseconds(arena, REQUEST_UNITS, ask->per_minute),
                               microseconds(arena, ask->burst, ask->per_minute),
                               counts ? STR("1") : STR("0")};
    const struct store_words keys = {&key, 1}, words = {args, 3};
    struct str reply;
    int64_t passes;
    enum store_result result = store_run(&call, &strict_script, &keys, &words, &reply);

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
    struct str key = name_of(sync, arena, &name);
    if (ask_store(sync, ask, counts, key, arena, &verdict) != STORE_OK) {
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
