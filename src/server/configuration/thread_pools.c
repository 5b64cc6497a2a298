/* The thread_pool directive, and the pools themselves in a worker. */
#include "server/configuration/thread_pools.h"

#include "base/parse.h"
#include "event/loop.h"
#include "server/generation.h"

enum { DEFAULT_THREADS = 32, DEFAULT_QUEUE = 65536, THREADS_MOST = 4096 };

struct pool_list {
    struct vec pools; /* struct thread_pool_settings */
};

static bool parse_parameter(struct str word, struct str name, unsigned most, unsigned *out)
{
    uint64_t number;

    if (!parse_uint(str_skip(word, name.len), &number) || number == 0 || number > most) {
        return false;
    }
    *out = (unsigned) number;
    return true;
}

static const struct thread_pool_settings *pool_find(const struct vec *pools, struct str name)
{
    vec_each(const struct thread_pool_settings, pool, pools) {
        if (str_equal(pool->name, name)) {
            return pool;
        }
    }
    return NULL;
}

static bool apply_thread_pool(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct pool_list *list = settings;
    struct conf *conf = scope->conf;
    struct thread_pool_settings pool = {.name = node->args[1], .max_queue = DEFAULT_QUEUE};

    if (conf_is_default(scope)) {
        return true; /* thread_pools_of adds "default" when the file does not define it */
    }
    for (unsigned i = 2; i < node->count; i++) {
        struct str word = node->args[i];

        if (str_starts(word, STR("threads="))) {
            if (!parse_parameter(word, STR("threads="), THREADS_MOST, &pool.threads)) {
                return conf_error(conf, node, "invalid threads value \"%.*s\"", STR_ARG(word));
            }
        } else if (str_starts(word, STR("max_queue="))) {
            if (!parse_parameter(word, STR("max_queue="), INT32_MAX, &pool.max_queue)) {
                return conf_error(conf, node, "invalid max_queue value \"%.*s\"", STR_ARG(word));
            }
        } else {
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
        }
    }
    if (pool.threads == 0) {
        return conf_error(conf, node, "\"thread_pool\" must have \"threads\" parameter");
    }
    if (pool_find(&list->pools, pool.name) != NULL) {
        return conf_error(conf, node, "duplicate thread pool \"%.*s\"", STR_ARG(pool.name));
    }
    *vec_add(&list->pools, conf->arena, struct thread_pool_settings) = pool;
    return true;
}

static const struct directive rows[] = {
    {"thread_pool", IN_MAIN, CUSTOM(apply_thread_pool), ARGS(2, 3), .repeat = REPEAT_APPEND,
     .syntax = "<name> threads=<number> [max_queue=<number>]",
     .initial = "default threads=32 max_queue=65536",
     .doc = "Defines a pool of threads in which each worker reads files for `aio threads`. "
            "`max_queue` limits the number of waiting tasks."},
    {0},
};

static struct settings_key thread_pool_key;
const struct directive_table thread_pool_table = {.key = &thread_pool_key,
                                                  .rows = rows,
                                                  .contexts = IN_MAIN,
                                                  .size = sizeof(struct pool_list),
                                                  .module_name = "ngx_thread_pool_module"};

struct vec thread_pools_of(struct conf *conf)
{
    struct pool_list *list = conf_settings(conf_main_scope(conf), &thread_pool_key);

    if (pool_find(&list->pools, STR("default")) == NULL) {
        struct thread_pool_settings *pool =
            vec_add(&list->pools, conf->arena, struct thread_pool_settings);

        *pool = (struct thread_pool_settings){STR("default"), DEFAULT_THREADS, DEFAULT_QUEUE};
    }
    return list->pools;
}

const struct thread_pool_settings *generation_thread_pool(const struct generation *generation,
                                                          struct str name)
{
    struct conf *conf = (struct conf *) &generation->conf;
    struct vec pools = thread_pools_of(conf);

    return pool_find(&pools, name);
}

/* A pool that a directive named. */
struct wanted_pool {
    struct str name;
    const struct conf_node *node;
};

static struct vec *wanted_pools(struct conf *conf)
{
    return conf_state(conf, "thread_pools.wanted", sizeof(struct vec));
}

void generation_want_thread_pool(struct generation *generation, const struct conf_node *node,
                                 struct str name)
{
    struct conf *conf = &generation->conf;
    struct wanted_pool *wanted = vec_add(wanted_pools(conf), conf->arena, struct wanted_pool);

    wanted->name = name;
    wanted->node = node;
}

bool thread_pools_check(struct generation *generation)
{
    bool is_good = true;

    vec_each(const struct wanted_pool, wanted, wanted_pools(&generation->conf)) {
        if (generation_thread_pool(generation, wanted->name) == NULL) {
            log_emerg(log_main, 0, "unknown thread pool \"%.*s\" in %.*s:%u", STR_ARG(wanted->name),
                      STR_ARG(wanted->node->file->name), wanted->node->end_line);
            is_good = false;
        }
    }
    return is_good;
}

/* A pool that runs in this worker. */
struct running_pool {
    struct running_pool *next;
    struct str name; /* of the settings */
    struct thread_pool *pool;
};

static struct running_pool *running;

static void end_pool(void *arg)
{
    struct running_pool *pool = arg;
    struct running_pool **link = &running;

    while (*link != pool) {
        link = &(*link)->next;
    }
    *link = pool->next;
    thread_pool_free(pool->pool);
}

static struct thread_pool *find_running(struct str name)
{
    for (struct running_pool *pool = running; pool != NULL; pool = pool->next) {
        if (str_equal(pool->name, name)) {
            return pool->pool;
        }
    }
    return NULL;
}

static struct thread_pool *start_pool(struct str name, unsigned threads, unsigned max_queue)
{
    struct running_pool *pool = arena_new(&generation_now->arena, struct running_pool);

    pool->name = name;
    pool->pool = thread_pool_new(name, threads, max_queue);
    if (pool->pool == NULL) {
        return NULL;
    }
    pool->next = running;
    running = pool;
    arena_on_free(&generation_now->arena, end_pool, pool);
    return pool->pool;
}

struct thread_pool *worker_thread_pool(struct str name)
{
    struct thread_pool *pool = find_running(name);

    if (pool != NULL) {
        return pool;
    }
    const struct thread_pool_settings *settings = generation_thread_pool(generation_now, name);
    return settings == NULL ? NULL
                            : start_pool(settings->name, settings->threads, settings->max_queue);
}

struct thread_pool *worker_own_thread_pool(struct str name, unsigned threads, unsigned max_queue)
{
    struct thread_pool *pool = worker_thread_pool(name);

    return pool != NULL ? pool
                        : start_pool(arena_dup(&generation_now->arena, name), threads, max_queue);
}
