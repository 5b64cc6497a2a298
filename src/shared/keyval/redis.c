/* keyval_zone_redis: fetches values in advance for a request or a session, and evaluates its
   variables. */
#include "shared/keyval/redis.h"

#include <stdlib.h>

#include "base/clock.h"
#include "fiber/fiber.h"
#include "server/generation.h"

enum {
    ROUNDS_MOST = 4,     /* of a chain of keys */
    FETCHED_MOST = 256,  /* most keys for one request */
    WRITING_MOST = 1024, /* assignments of a worker without a reply; more are dropped */
    REPLY_SIZE = 64,     /* most bytes of a reply besides its value */
    LOG_EVERY_MS = 10000,
};

static struct keyval_fetched *fetched_find(const struct keyval_fetches *fetches,
                                           const struct keyval_redis *redis, struct str key)
{
    struct keyval_fetched *fetched = fetches->first;

    while (fetched != NULL && (fetched->redis != redis || !str_equal(fetched->key, key))) {
        fetched = fetched->next;
    }
    return fetched;
}

static struct keyval_fetched *fetched_make(struct keyval_fetches *fetches,
                                           const struct keyval_redis *redis, struct str key)
{
    struct keyval_fetched *fetched = fetched_find(fetches, redis, key);

    if (fetched == NULL) {
        fetched = arena_new(fetches->arena, struct keyval_fetched);
        fetched->redis = redis;
        fetched->key = arena_dup(fetches->arena, key);
        fetched->next = fetches->first;
        fetches->first = fetched;
        fetches->count++;
    }
    return fetched;
}

static bool is_key(struct str key)
{
    return key.len != 0 && key.len <= KEYVAL_KEY_MAX;
}

/* ---- fetching ---- */

/* A key that has to be fetched. */
struct due {
    const struct keyval_redis *redis;
    struct str key;
    bool is_asked;
};

static bool is_due_already(const struct vec *due, const struct keyval_redis *redis, struct str key)
{
    vec_each(const struct due, one, due) {
        if (one->redis == redis && str_equal(one->key, key)) {
            return true;
        }
    }
    return false;
}

static void add_due(const struct keyval_fetches *fetches, const struct vec *variables,
                    struct variable_env *env, struct vec *due)
{
    vec_each(struct keyval_variable *, keyval, variables) {
        const struct keyval_redis *redis = (*keyval)->zone->redis;
        struct str key = template_text((*keyval)->key, env);

        if (is_key(key) && fetched_find(fetches, redis, key) == NULL &&
            !is_due_already(due, redis, key) && fetches->count + due->count < FETCHED_MOST) {
            *vec_add(due, fetches->arena, struct due) =
                (struct due){redis, arena_dup(fetches->arena, key), false};
        }
    }
}

/*
 * Finds the keys (struct due) that these variables have now and that were not fetched. Nothing is
 * cached in `env`: a variable in a key may have another value when the configuration evaluates it.
 * Nor is memory taken from its arena: a script may call this many times.
 */
static void find_due(struct keyval_fetches *fetches, const struct vec *variables,
                     struct variable_env *env, struct vec *due)
{
    static const struct log silent = {.sinks = NULL};
    size_t size = env->set->used.count * sizeof(struct variable_value);
    const struct variable_env former = *env;
    struct arena arena;

    arena_init(&arena);
    env->arena = &arena;
    env->log = &silent; /* drops messages, for example of variables without a value */
    if (former.values != NULL) {
        env->values = arena_array(&arena, env->set->used.count, sizeof(struct variable_value));
        memcpy(env->values, former.values, size);
    }
    fetches->is_finding = true;
    add_due(fetches, variables, env, due);
    fetches->is_finding = false;
    env->arena = former.arena;
    env->log = former.log;
    env->values = former.values;
    env->captures = former.captures;
    env->capture_count = former.capture_count;
    arena_free(&arena);
}

bool keyval_redis_is_due(const struct vec *variables, struct variable_env *env)
{
    vec_each(struct keyval_variable *, keyval, variables) {
        struct keyval_fetches *fetches = (*keyval)->zone->redis->fetches(env);
        struct vec due = {0};

        if (fetches != NULL) {
            find_due(fetches, variables, env, &due);
        }
        return due.count != 0;
    }
    return false;
}

/* Fetches all due keys of this store in one round trip. MAY WAIT. */
static void ask_store(struct keyval_fetches *fetches, struct store *store, const struct vec *due)
{
    struct arena *arena = fetches->arena;
    const struct store_call call = {.store = store, .arena = arena};
    struct str *keys = arena_array(arena, due->count, sizeof(*keys));
    struct store_found *found = arena_array(arena, due->count, sizeof(*found));
    struct due **asked = arena_array(arena, due->count, sizeof(*asked));
    size_t count = 0;

    vec_each(struct due, one, due) {
        if (one->redis->store == store && !one->is_asked) {
            one->is_asked = true;
            keys[count] = arena_concat(arena, one->redis->prefix, one->key);
            asked[count++] = one;
        }
    }
    store_get_all(&call, keys, count, found);
    for (size_t i = 0; i < count; i++) {
        struct keyval_fetched *fetched = fetched_find(fetches, asked[i]->redis, asked[i]->key);

        if (fetched != NULL) {
            continue; /* assigned meanwhile, or fetched by another subrequest */
        }
        fetched = fetched_make(fetches, asked[i]->redis, asked[i]->key);
        fetched->value = found[i].value;
        fetched->what = found[i].result == STORE_OK       ? FETCHED_VALUE
                        : found[i].result == STORE_ABSENT ? FETCHED_NONE
                                                          : FETCHED_FAILED;
    }
}

void keyval_redis_fetch(const struct vec *variables, struct variable_env *env)
{
    if (variables->count == 0 || fiber_self() == NULL) {
        return;
    }
    struct keyval_variable *first = *vec_at(variables, struct keyval_variable *, 0);
    struct keyval_fetches *fetches = first->zone->redis->fetches(env);
    if (fetches == NULL) {
        return;
    }
    for (unsigned round = 0; round < ROUNDS_MOST && !fiber_is_cancelled(); round++) {
        struct vec due = {0};

        find_due(fetches, variables, env, &due);
        vec_each(const struct due, one, &due) {
            if (!one->is_asked) {
                ask_store(fetches, one->redis->store, &due);
            }
        }
        if (due.count == 0) {
            break;
        }
    }
}

/* ---- variables ---- */

static void log_missing(const struct variable_env *env, struct keyval_fetches *fetches,
                        const struct variable *variable, struct str key)
{
    if (fetches != NULL && (fetches->is_logged || fetches->is_finding)) {
        return;
    }
    if (fetches != NULL) {
        fetches->is_logged = true;
    }
    log_warn(env->log, 0,
             "\"$%.*s\" is empty: its key \"%.*s\" was not known when its value could be fetched",
             STR_ARG(variable->name), STR_ARG(key));
}

bool keyval_redis_get(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct keyval_variable *keyval = (const struct keyval_variable *) variable->data;
    const struct keyval_redis *redis = keyval->zone->redis;
    struct keyval_fetches *fetches = redis->fetches(env);
    struct str key = template_text(keyval->key, env);

    if (key.len == 0) {
        return false;
    }
    const struct keyval_fetched *fetched =
        fetches == NULL ? NULL : fetched_find(fetches, redis, key);
    if (fetched == NULL) {
        log_missing(env, fetches, variable, key);
        return false;
    }
    *out = fetched->value;
    return fetched->what == FETCHED_VALUE;
}

/* An assignment that is being sent to the store; on the heap, since the request may end before. */
struct writing {
    const struct keyval_redis *redis;
    struct arena arena;
    struct vec changes; /* one struct keyval_change */
};

static unsigned writing_count;
static uint64_t dropped_ms; /* when that was last logged; 0: never */

static void write_run(void *arg)
{
    struct writing *writing = arg;

    keyval_redis_set_pairs(writing->redis, &writing->arena, &writing->changes);
    arena_free(&writing->arena);
    free(writing);
    writing_count--;
}

static void log_dropped(const struct variable_env *env, const struct variable *variable,
                        const char *why)
{
    counters_mine->limited++;
    if (dropped_ms == 0 || clock_now.now_ms - dropped_ms > LOG_EVERY_MS) {
        dropped_ms = clock_now.now_ms;
        log_error(env->log, 0, "an assignment to \"$%.*s\" is dropped: %s", STR_ARG(variable->name),
                  why);
    }
}

static bool write_begin(const struct keyval_redis *redis, struct str key, struct str value)
{
    struct writing *writing = writing_count < WRITING_MOST ? malloc(sizeof(*writing)) : NULL;

    if (writing == NULL) {
        return false;
    }
    *writing = (struct writing){.redis = redis};
    arena_init(&writing->arena);
    struct keyval_change *change =
        vec_add(&writing->changes, &writing->arena, struct keyval_change);
    change->pair.key = arena_dup(&writing->arena, key);
    change->pair.value = arena_dup(&writing->arena, value);
    change->pair.expires_ms = redis->ttl_ms == 0 ? KEYVAL_NEVER : keyval_now() + redis->ttl_ms;
    writing_count++;
    if (fiber_start(write_run, writing, NULL) == FIBER_NO_STACK) {
        writing_count--;
        arena_free(&writing->arena);
        free(writing);
        return false;
    }
    return true;
}

void keyval_redis_set(struct variable_env *env, const struct variable *variable, struct str value)
{
    const struct keyval_variable *keyval = (const struct keyval_variable *) variable->data;
    const struct keyval_redis *redis = keyval->zone->redis;
    struct keyval_fetches *fetches = redis->fetches(env);
    struct str key = template_text(keyval->key, env);

    if (!is_key(key)) {
        return;
    }
    if (fetches != NULL && (fetches->count < FETCHED_MOST || fetched_find(fetches, redis, key))) {
        struct keyval_fetched *fetched = fetched_make(fetches, redis, key);

        fetched->what = FETCHED_VALUE;
        fetched->value = arena_dup(fetches->arena, value);
    }
    if (value.len > store_reply_max(redis->store) - REPLY_SIZE) {
        log_dropped(env, variable, "nobody could read it, it is larger than \"reply_max\"");
    } else if (!write_begin(redis, key, value)) {
        log_dropped(env, variable, "too many wait for the store");
    }
}
