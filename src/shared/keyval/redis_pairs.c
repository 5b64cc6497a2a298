/* keyval_zone_redis: the pairs, as the API shows and changes them. */
#include "base/clock.h"
#include "base/map.h"
#include "shared/keyval/redis.h"
#include "store/resp.h"

enum {
    WAITS_MS = 500,  /* for a call of the store, of those who administrate */
    TOGETHER = 1000, /* keys of one call */
};

static struct store_call call_of(const struct keyval_redis *redis, struct arena *arena)
{
    return (struct store_call){.store = redis->store,
                               .arena = arena,
                               .deadline_ms = clock_now.now_ms + WAITS_MS};
}

static enum keyval_redis_result result_of(enum store_result result)
{
    return result == STORE_OK        ? KEYVAL_REDIS_DONE
           : result == STORE_ABSENT  ? KEYVAL_REDIS_ABSENT
           : result == STORE_REFUSED ? KEYVAL_REDIS_REFUSED
                                     : KEYVAL_REDIS_GONE;
}

enum keyval_redis_result keyval_redis_pair(const struct keyval_redis *redis, struct arena *arena,
                                           struct str key, struct str *value)
{
    const struct store_call call = call_of(redis, arena);

    return result_of(store_get(&call, arena_concat(arena, redis->prefix, key), value));
}

/* ---- all pairs ---- */

/* The names of all keys of the zone, as a pattern: "\*" is a star. */
static struct str pattern_of(const struct keyval_redis *redis, struct arena *arena)
{
    char *text = arena_text(arena, 2 * redis->prefix.len + 1);
    char *at = text;

    for (size_t i = 0; i < redis->prefix.len; i++) {
        char c = redis->prefix.data[i];
        if (c == '*' || c == '?' || c == '[' || c == ']' || c == '^' || c == '\\') {
            *at++ = '\\';
        }
        *at++ = c;
    }
    *at++ = '*';
    return str_from(text, at);
}

/* The keys of the zone, each once: struct str. */
static enum keyval_redis_result list_keys(const struct keyval_redis *redis, struct arena *arena,
                                          struct vec *keys)
{
    struct str pattern = pattern_of(redis, arena), cursor = STR("0");
    struct map seen = {0};

    if (store_is_cluster(redis->store)) {
        return KEYVAL_REDIS_REFUSED; /* each server has some */
    }
    do {
        const struct store_call call = call_of(redis, arena);
        struct vec some = {0};
        enum store_result result = store_scan(&call, pattern, &cursor, &some);

        if (result != STORE_OK) {
            return result_of(result);
        }
        vec_each(const struct str, key, &some) {
            if (map_put(&seen, arena, *key, &seen) == NULL) {
                *vec_add(keys, arena, struct str) = *key;
            }
        }
    } while (!str_is(cursor, "0"));
    return KEYVAL_REDIS_DONE;
}

enum keyval_redis_result keyval_redis_pairs(const struct keyval_redis *redis, struct arena *arena,
                                            struct vec *pairs)
{
    struct vec keys = {0};
    enum keyval_redis_result result = list_keys(redis, arena, &keys);
    const struct str *names = keys.items;

    for (size_t done = 0; result == KEYVAL_REDIS_DONE && done < keys.count; done += TOGETHER) {
        size_t count = keys.count - done < TOGETHER ? keys.count - done : TOGETHER;
        struct store_found *found = arena_array(arena, count, sizeof(*found));
        const struct store_call call = call_of(redis, arena);

        store_get_all(&call, names + done, count, found);
        for (size_t i = 0; i < count; i++) {
            if (found[i].result == STORE_OK) {
                *vec_add(pairs, arena, struct keyval_pair) =
                    (struct keyval_pair){.key = str_skip(names[done + i], redis->prefix.len),
                                         .value = found[i].value};
            } else if (found[i].result != STORE_ABSENT && found[i].result != STORE_REFUSED) {
                result = KEYVAL_REDIS_GONE; /* what is no string is no pair */
            }
        }
    }
    return result;
}

enum keyval_redis_result keyval_redis_clear(const struct keyval_redis *redis, struct arena *arena)
{
    static struct store_script script = {.text = "return redis.call('UNLINK', unpack(KEYS))"};
    struct vec keys = {0};
    enum keyval_redis_result result = list_keys(redis, arena, &keys);

    for (size_t done = 0; result == KEYVAL_REDIS_DONE && done < keys.count; done += TOGETHER) {
        const struct store_words words = {(const struct str *) keys.items + done,
                                          keys.count - done < TOGETHER ? keys.count - done
                                                                       : TOGETHER},
                                 none = {0};
        const struct store_call call = call_of(redis, arena);
        struct str reply;

        result = result_of(store_run(&call, &script, &words, &none, &reply));
    }
    return result;
}

/* ---- changes ---- */

/* ARGV: what is expected of the keys, then three words for each. Gives 0, or what was not so: 1
 * there is a key, 2 there is none. */
static struct store_script change_script = {
    .text = "for _, key in ipairs(KEYS) do\n"
            "  local is_there = redis.call('EXISTS', key) == 1\n"
            "  if ARGV[1] == 'absent' and is_there then return 1 end\n"
            "  if ARGV[1] == 'present' and not is_there then return 2 end\n"
            "end\n"
            "for i, key in ipairs(KEYS) do\n"
            "  local what, ttl, value = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]\n"
            "  if what == 'delete' then redis.call('DEL', key)\n"
            "  elseif what == 'expire' and ttl == '0' then redis.call('PERSIST', key)\n"
            "  elseif what == 'expire' then redis.call('PEXPIRE', key, ttl)\n"
            "  elseif ttl == '0' then redis.call('SET', key, value)\n"
            "  else redis.call('SET', key, value, 'PX', ttl) end\n"
            "end\n"
            "return 0"};

static struct str ttl_text(struct arena *arena, uint64_t expires_ms)
{
    uint64_t now_ms = keyval_now();
    uint64_t ttl_ms = expires_ms == KEYVAL_NEVER ? 0
                      : expires_ms > now_ms      ? expires_ms - now_ms
                                                 : 1;

    return arena_printf(arena, "%llu", (unsigned long long) ttl_ms);
}

/* MAY WAIT. */
static enum keyval_redis_result run_changes(const struct store_call *call, struct str expected,
                                            const struct keyval_redis *redis,
                                            const struct vec *changes)
{
    struct str *keys = arena_array(call->arena, changes->count, sizeof(*keys));
    struct str *words = arena_array(call->arena, 1 + 3 * changes->count, sizeof(*words));
    struct str *word = words, *key = keys, reply;
    int64_t number = 0;

    *word++ = expected;
    vec_each(const struct keyval_change, change, changes) {
        *key++ = arena_concat(call->arena, redis->prefix, change->pair.key);
        *word++ = change->is_deleted    ? STR("delete")
                  : change->keeps_value ? STR("expire")
                                        : STR("set");
        *word++ = ttl_text(call->arena, change->pair.expires_ms);
        *word++ = change->pair.value.data == NULL ? STR("") : change->pair.value;
    }
    const struct store_words all_keys = {keys, changes->count},
                             all_words = {words, 1 + 3 * changes->count};
    enum store_result result = store_run(call, &change_script, &all_keys, &all_words, &reply);
    if (result != STORE_OK) {
        return result_of(result);
    }
    return !resp_next_integer(&reply, &number) ? KEYVAL_REDIS_REFUSED
           : number == 1                       ? KEYVAL_REDIS_EXISTS
           : number == 2                       ? KEYVAL_REDIS_ABSENT
                                               : KEYVAL_REDIS_DONE;
}

enum keyval_redis_result keyval_redis_change(const struct keyval_redis *redis, struct arena *arena,
                                             const struct vec *changes, bool is_new)
{
    const struct store_call call = call_of(redis, arena);

    return run_changes(&call, is_new ? STR("absent") : STR("present"), redis, changes);
}

void keyval_redis_set_pairs(const struct keyval_redis *redis, struct arena *arena,
                            const struct vec *changes)
{
    const struct store_call call = {.store = redis->store, .arena = arena};

    run_changes(&call, STR("any"), redis, changes);
}
