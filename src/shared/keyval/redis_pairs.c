/* keyval_zone_redis: lists and changes the pairs, for the API. */
#include "base/clock.h"
#include "shared/keyval/redis.h"
#include "store/resp.h"

enum {
    WAITS_MS = 500,      /* for a call of the store from the API */
    WALKS_MS = 10000,    /* for all calls of a walk */
    REMOVED_MOST = 1000, /* keys in one call */
    READ_MOST = 16,      /* keys in one call, since each value may be as large as a reply */
    CURSOR_ROOM = 20,    /* digits */
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

struct keyval_walk {
    const struct keyval_redis *redis;
    char cursor_text[CURSOR_ROOM];
    struct str cursor; /* of SCAN */
    bool has_begun;    /* needed since a cursor of "0" marks both start and end */
    int64_t left_ms;   /* remaining time for waiting for the store */
    struct arena keys_arena, values_arena;
    struct vec keys; /* struct str: result of the last SCAN */
    size_t next_key; /* the first one whose value was not read */
};

/* A pattern for all keys of the zone: "\*" is a literal star. */
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

static void walk_free(void *arg)
{
    struct keyval_walk *walk = arg;

    arena_free(&walk->keys_arena);
    arena_free(&walk->values_arena);
}

struct keyval_walk *keyval_redis_walk(const struct keyval_redis *redis, struct arena *arena)
{
    struct keyval_walk *walk = arena_new(arena, struct keyval_walk);

    walk->redis = redis;
    walk->cursor = STR("0");
    walk->left_ms = WALKS_MS;
    arena_init(&walk->keys_arena);
    arena_init(&walk->values_arena);
    arena_on_free(arena, walk_free, walk);
    return walk;
}

static struct store_call walk_call(const struct keyval_walk *walk, struct arena *arena)
{
    struct store_call call = call_of(walk->redis, arena);

    if (walk->left_ms < WAITS_MS) {
        call.deadline_ms = clock_now.now_ms + (uint64_t) walk->left_ms;
    }
    return call;
}

/* False: the walk has waited too long. */
static bool walk_waited(struct keyval_walk *walk, uint64_t since_ms)
{
    walk->left_ms -= (int64_t) (clock_now.now_ms - since_ms);
    return walk->left_ms > 0;
}

/* Reads the next keys, perhaps none. MAY WAIT. */
static enum keyval_redis_result scan_keys(struct keyval_walk *walk)
{
    uint64_t since_ms = clock_now.now_ms;
    struct str cursor = walk->cursor;

    if (store_is_cluster(walk->redis->store)) {
        return KEYVAL_REDIS_REFUSED; /* each server of a cluster has only some of them */
    }
    arena_free(&walk->keys_arena);
    arena_init(&walk->keys_arena);
    walk->keys = (struct vec){0};
    walk->next_key = 0;
    const struct store_call call = walk_call(walk, &walk->keys_arena);
    enum store_result result =
        store_scan(&call, pattern_of(walk->redis, &walk->keys_arena), &cursor, &walk->keys);
    if (result != STORE_OK) {
        return result_of(result);
    }
    if (cursor.len > CURSOR_ROOM) {
        return KEYVAL_REDIS_REFUSED;
    }
    memcpy(walk->cursor_text, cursor.data, cursor.len);
    walk->cursor = (struct str){walk->cursor_text, cursor.len};
    walk->has_begun = true;
    return walk_waited(walk, since_ms) ? KEYVAL_REDIS_DONE : KEYVAL_REDIS_GONE;
}

static bool walk_has_more(const struct keyval_walk *walk)
{
    return !walk->has_begun || walk->next_key < walk->keys.count || !str_is(walk->cursor, "0");
}

/* Reads the values of the next keys. MAY WAIT. */
static enum keyval_redis_result read_values(struct keyval_walk *walk, struct vec *pairs)
{
    uint64_t since_ms = clock_now.now_ms;
    const struct str *names = (const struct str *) walk->keys.items + walk->next_key;
    size_t count = walk->keys.count - walk->next_key;

    count = count < READ_MOST ? count : READ_MOST;
    arena_free(&walk->values_arena);
    arena_init(&walk->values_arena);
    struct store_found *found = arena_array(&walk->values_arena, count, sizeof(*found));
    const struct store_call call = walk_call(walk, &walk->values_arena);
    store_get_all(&call, names, count, found);
    for (size_t i = 0; i < count; i++) {
        if (found[i].result == STORE_OK) {
            *vec_add(pairs, &walk->values_arena, struct keyval_pair) =
                (struct keyval_pair){.key = str_skip(names[i], walk->redis->prefix.len),
                                     .value = found[i].value};
        } else if (found[i].result != STORE_ABSENT && found[i].result != STORE_REFUSED) {
            return KEYVAL_REDIS_GONE; /* a key that is not a string is not a pair */
        }
    }
    walk->next_key += count;
    return walk_waited(walk, since_ms) ? KEYVAL_REDIS_DONE : KEYVAL_REDIS_GONE;
}

enum keyval_redis_result keyval_redis_walk_on(struct keyval_walk *walk, struct vec *pairs,
                                              bool *has_more)
{
    enum keyval_redis_result result = KEYVAL_REDIS_DONE;

    *pairs = (struct vec){0};
    if (walk->next_key == walk->keys.count && walk_has_more(walk)) {
        result = scan_keys(walk);
    }
    if (result == KEYVAL_REDIS_DONE && walk->next_key < walk->keys.count) {
        result = read_values(walk, pairs);
    }
    *has_more = walk_has_more(walk);
    return result;
}

/* Removes the keys that the walk has read last. MAY WAIT. */
static enum keyval_redis_result remove_keys(struct keyval_walk *walk)
{
    static struct store_script script = {.text = "return redis.call('UNLINK', unpack(KEYS))"};
    enum keyval_redis_result result = KEYVAL_REDIS_DONE;

    while (result == KEYVAL_REDIS_DONE && walk->next_key < walk->keys.count) {
        size_t left = walk->keys.count - walk->next_key;
        const struct store_words words = {(const struct str *) walk->keys.items + walk->next_key,
                                          left < REMOVED_MOST ? left : REMOVED_MOST},
                                 none = {0};
        const struct store_call call = call_of(walk->redis, &walk->keys_arena);
        struct str reply;

        result = result_of(store_run(&call, &script, &words, &none, &reply));
        walk->next_key += words.count;
    }
    return result;
}

enum keyval_redis_result keyval_redis_clear(const struct keyval_redis *redis, struct arena *arena)
{
    struct keyval_walk *walk = keyval_redis_walk(redis, arena);
    enum keyval_redis_result result = KEYVAL_REDIS_DONE;

    while (result == KEYVAL_REDIS_DONE && walk_has_more(walk)) {
        result = scan_keys(walk);
        if (result == KEYVAL_REDIS_DONE) {
            result = remove_keys(walk);
        }
    }
    return result;
}

/* ---- changes ---- */

/* ARGV: whether the keys must exist, then three arguments for each key. Gives 0, or why nothing was
 * changed: 1 a key exists, 2 a key does not exist. */
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
