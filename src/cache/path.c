/* The *_cache_path directives, caches by name, and the zones of their indexes. */
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/statvfs.h>

#include "base/fatal.h"
#include "base/parse.h"
#include "cache/internal.h"
#include "cache/shared_fetch.h"
#include "cache/sync.h"
#include "server/generation.h"

enum { ZONE_LEAST = 64 << 10, LEVELS = 3, LEVEL_MOST = 2, NGINX_PAGES_LEAST = 2 * 4096 };

/* A cache of one reading of the configuration. */
struct cache_node {
    struct cache_node *next;
    struct cache cache;
    const struct conf_node *use; /* first use of the name, if that was not a *_cache_path */
};

struct cache_list {
    struct cache_node *first;
    struct cache_node **last; /* where to append the next; NULL while the list is empty */
};

static struct cache_list *list_of(struct conf *conf)
{
    return conf_state(conf, "cache.list", sizeof(struct cache_list));
}

static struct cache *cache_first(struct generation *generation)
{
    struct cache_node *node = list_of(&generation->conf)->first;

    return node == NULL ? NULL : &node->cache;
}

static struct cache *cache_next(const struct cache *cache)
{
    struct cache_node *next = container_of((struct cache *) cache, struct cache_node, cache)->next;

    return next == NULL ? NULL : &next->cache;
}

static struct cache *cache_of_name(struct generation *generation, struct str name)
{
    struct cache *cache = cache_first(generation);

    while (cache != NULL && !str_equal(cache->name, name)) {
        cache = cache_next(cache);
    }
    return cache;
}

/* The owner of a zone: zones of proxy_cache_path are separate from those of fastcgi_cache_path. One
 * object for each prefix of "cache", for the life of the process, by which a reload recognises its
 * zones. */
static const void *user_of(const struct conf_node *node)
{
    static struct user {
        struct user *next;
        struct str prefix;
        char bytes[];
    } * users;
    struct str name = node->args[0];
    size_t length = 0;

    while (length < name.len && !str_starts(str_skip(name, length), STR("cache"))) {
        length++;
    }
    for (const struct user *user = users; user != NULL; user = user->next) {
        if (str_equal(user->prefix, str_head(name, length))) {
            return user;
        }
    }
    struct user *user = malloc(sizeof(*user) + length);
    if (user == NULL) {
        fatal_no_memory(sizeof(*user) + length);
    }
    memcpy(user->bytes, name.data, length);
    user->prefix = (struct str){user->bytes, length};
    user->next = users;
    users = user;
    return user;
}

static struct cache *get(struct conf *conf, const struct conf_node *node, struct str name,
                         size_t size)
{
    struct generation *generation = conf->generation;
    struct zone *zone =
        generation_zone(generation, (struct conf_node *) node, name, size, user_of(node));

    if (zone == NULL) {
        return NULL;
    }
    struct cache *cache = cache_of_name(generation, zone->name);
    if (cache == NULL) {
        struct cache_list *list = list_of(conf);
        struct cache_node *added = arena_new(conf->arena, struct cache_node);
        struct cache_node **link = list->last == NULL ? &list->first : list->last;

        added->use = node;
        added->cache.name = zone->name;
        added->cache.zone = zone;
        *link = added;
        list->last = &added->next;
        cache = &added->cache;
    }
    return cache;
}

struct cache *cache_use(struct conf *conf, const struct conf_node *node, struct str name)
{
    return get(conf, node, name, 0);
}

void cache_each(struct generation *generation, void (*visit)(const struct cache *cache, void *arg),
                void *arg)
{
    for (const struct cache *cache = cache_first(generation); cache != NULL;
         cache = cache_next(cache)) {
        visit(cache, arg);
    }
}

struct cache *cache_find(struct generation *generation, struct str name)
{
    struct cache *cache = cache_of_name(generation, name);

    return cache == NULL || cache->path == NULL ? NULL : cache;
}

/* ---- parameters ---- */

/* The parameters of a *_cache_path line. */
struct words {
    struct cache cache;
    unsigned levels[LEVELS];
    struct str zone;
    uint64_t size;
    struct store_sync_words sync;
};

static bool read_levels(struct conf *conf, const struct conf_node *node, struct str word,
                        struct str value, unsigned levels[LEVELS])
{
    unsigned count = 0;

    if (value.len == 0) {
        return true;
    }
    while (value.data != NULL) {
        struct str part = str_cut(&value, ':');

        if (count == LEVELS || part.len != 1 || part.data[0] < '1' ||
            part.data[0] > '0' + LEVEL_MOST) {
            return conf_error(conf, node, "invalid \"levels\" \"%.*s\"", STR_ARG(word));
        }
        levels[count++] = (unsigned) (part.data[0] - '0');
    }
    return true;
}

/* "name:size" */
static bool read_zone(struct conf *conf, const struct conf_node *node, struct str word,
                      struct str value, struct words *words)
{
    words->zone = str_cut(&value, ':');
    if (value.data == NULL || !parse_size(value, &words->size)) {
        return conf_error(conf, node, "invalid keys zone size \"%.*s\"", STR_ARG(word));
    }
    if (words->size < NGINX_PAGES_LEAST) {
        return conf_error(conf, node, "keys zone \"%.*s\" is too small", STR_ARG(word));
    }
    if (words->size < ZONE_LEAST) {
        words->size = ZONE_LEAST;
    }
    return true;
}

static bool read_flag(struct conf *conf, const struct conf_node *node, struct str name,
                      struct str value, bool *out)
{
    if (!str_is(value, "on") && !str_is(value, "off")) {
        return conf_error(conf, node,
                          "invalid %.*s value \"%.*s=%.*s\", it must be \"on\" or \"off\"",
                          STR_ARG(name), STR_ARG(name), STR_ARG(value));
    }
    *out = str_is(value, "on");
    return true;
}

static bool parse_count(struct str value, unsigned *out)
{
    uint64_t number;

    if (!parse_uint(value, &number) || number > INT32_MAX) {
        return false;
    }
    *out = (unsigned) number;
    return true;
}

static bool parse_inactive(struct str value, uint64_t *out_ms)
{
    uint64_t seconds;

    if (!parse_sec(value, &seconds) || seconds > UINT32_MAX) {
        return false;
    }
    *out_ms = seconds * 1000;
    return true;
}

/* Reads numbers, sizes and times. False: an invalid value, or an unknown name (*is_known). */
static bool cache_path_read_value(struct cache *cache, struct str name, struct str value,
                                  bool *is_known)
{
    struct {
        const char *name;
        unsigned *count;
        uint64_t *ms;
        int64_t *bytes;
    } const rows[] = {
        {"max_size", NULL, NULL, &cache->max_size},
        {"min_free", NULL, NULL, &cache->min_free},
        {"loader_files", &cache->loader_files, NULL, NULL},
        {"loader_sleep", NULL, &cache->loader_sleep_ms, NULL},
        {"loader_threshold", NULL, &cache->loader_threshold_ms, NULL},
        {"manager_files", &cache->manager_files, NULL, NULL},
        {"manager_sleep", NULL, &cache->manager_sleep_ms, NULL},
        {"manager_threshold", NULL, &cache->manager_threshold_ms, NULL},
        {"purger_files", &cache->purger_files, NULL, NULL},
        {"purger_sleep", NULL, &cache->purger_sleep_ms, NULL},
        {"purger_threshold", NULL, &cache->purger_threshold_ms, NULL},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (str_is(name, rows[i].name)) {
            return rows[i].count != NULL ? parse_count(value, rows[i].count)
                   : rows[i].ms != NULL  ? parse_msec(value, rows[i].ms)
                                         : parse_offset(value, rows[i].bytes);
        }
    }
    if (str_is(name, "inactive")) {
        return parse_inactive(value, &cache->inactive_ms);
    }
    *is_known = false;
    return false;
}

static bool cache_path_read_word(struct conf *conf, const struct conf_node *node, struct str word,
                                 struct words *words)
{
    struct str value = word;
    struct str name = str_cut(&value, '=');
    bool is_known = true, is_sync;

    if (!store_sync_read(conf, node, word, false, &words->sync, &is_sync)) {
        return false;
    }
    if (is_sync) {
        return true;
    }
    if (value.data != NULL && str_is(name, "levels")) {
        return read_levels(conf, node, word, value, words->levels);
    }
    if (value.data != NULL && str_is(name, "keys_zone")) {
        return read_zone(conf, node, word, value, words);
    }
    if (value.data != NULL && str_is(name, "use_temp_path")) {
        return read_flag(conf, node, name, value, &words->cache.uses_temp_path);
    }
    if (value.data != NULL && str_is(name, "purger")) {
        return read_flag(conf, node, name, value, &words->cache.purger);
    }
    if (value.data != NULL && cache_path_read_value(&words->cache, name, value, &is_known)) {
        return true;
    }
    return value.data != NULL && is_known
               ? conf_error(conf, node, "invalid %.*s value \"%.*s\"", STR_ARG(name), STR_ARG(word))
               : conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
}

static bool is_path_used(struct conf *conf, const struct conf_node *node, const struct cache *mine)
{
    for (const struct cache *cache = cache_first(conf->generation); cache != NULL;
         cache = cache_next(cache)) {
        if (cache != mine && cache->path == mine->path) {
            return !conf_error(conf, node, "the same path name \"%.*s\" used in %.*s:%u and",
                               STR_ARG(mine->path->name), STR_ARG(cache->node->file->name),
                               cache->node->end_line);
        }
    }
    return false;
}

bool cache_path_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    struct conf *conf = scope->conf;
    struct words words = {
        .cache = {.uses_temp_path = true,
                  .inactive_ms = 600000,
                  .max_size = INT64_MAX,
                  .manager_files = 100,
                  .manager_sleep_ms = 50,
                  .manager_threshold_ms = 200,
                  .loader_files = 100,
                  .loader_sleep_ms = 50,
                  .loader_threshold_ms = 200,
                  .purger_files = 10,
                  .purger_sleep_ms = 50,
                  .purger_threshold_ms = 50},
    };

    if (scope->parent == NULL) {
        return true; /* called for the default value, of which there is none */
    }
    for (unsigned i = 2; i < node->count; i++) {
        if (!cache_path_read_word(conf, node, node->args[i], &words)) {
            return false;
        }
    }
    if (words.zone.len == 0) {
        return conf_error(conf, node, "\"%.*s\" must have \"keys_zone\" parameter",
                          STR_ARG(node->args[0]));
    }
    if (!store_sync_check(conf, node, &words.sync)) {
        return false;
    }
    struct cache *cache = get(conf, node, words.zone, words.size);
    if (cache == NULL) {
        return false;
    }
    if (cache->path != NULL) {
        return conf_error(conf, node, "duplicate zone \"%.*s\"", STR_ARG(words.zone));
    }
    words.cache.name = cache->name;
    words.cache.zone = cache->zone;
    *cache = words.cache;
    cache->node = node;
    cache->path = generation_path(conf->generation, node, node->args[1], words.levels);
    if (is_path_used(conf, node, cache)) {
        return false;
    }
    if (cache->path->name.len >= CACHE_PATH_MAX) {
        return conf_error(conf, node, "the path \"%.*s\" is too long", STR_ARG(cache->path->name));
    }
    memcpy(cache->path->levels, words.levels, sizeof(words.levels));
    if (words.sync.is_wanted) {
        cache->sync = cache_sync_new(conf, node, cache, &words.sync);
    }
    return !words.sync.is_wanted || cache->sync != NULL;
}

/* ---- after the configuration was read ---- */

/* Creates the index of a zone, or takes that of the previous generation. */
static bool take_index(struct conf *conf, struct cache *cache)
{
    if (cache->zone->root == NULL) {
        if (!cache_index_make(cache->zone)) {
            return conf_error(conf, cache->node, "zone \"%.*s\" is too small",
                              STR_ARG(cache->name));
        }
        struct cache_index *made = cache->zone->root;
        made->path_length = (uint32_t) cache->path->name.len;
        memcpy(made->path, cache->path->name.data, cache->path->name.len);
        memcpy(made->levels, cache->path->levels, sizeof(made->levels));
    }
    struct cache_index *index = cache->zone->root;
    const struct str path = {index->path, index->path_length};
    cache->index = index;
    if (!str_equal(path, cache->path->name)) {
        return conf_error(conf, NULL,
                          "cache \"%.*s\" uses the \"%.*s\" cache path while previously it used "
                          "the \"%.*s\" cache path",
                          STR_ARG(cache->name), STR_ARG(cache->path->name), STR_ARG(path));
    }
    if (memcmp(index->levels, cache->path->levels, sizeof(index->levels)) != 0) {
        return conf_error(conf, NULL, "cache \"%.*s\" had previously different levels",
                          STR_ARG(cache->name));
    }
    return true;
}

/* The block of the main level that contains the node: nginx reports the error at the end of that
 * block. */
static const struct conf_node *outermost(const struct conf *conf, const struct conf_node *node)
{
    while (node->parent != NULL && node->parent != conf->root) {
        node = node->parent;
    }
    return node;
}

bool cache_configured(struct conf *conf, struct generation *generation)
{
    bool is_good = true;

    for (struct cache *cache = cache_first(generation); cache != NULL; cache = cache_next(cache)) {
        const struct cache_node *node = container_of(cache, struct cache_node, cache);

        cache->has_shared_fetches = fetch_share_is_used(conf);
        if (cache->path == NULL) {
            is_good =
                conf_error(conf, outermost(conf, node->use), "\"%.*s\" zone \"%.*s\" is unknown",
                           STR_ARG(node->use->args[0]), STR_ARG(cache->name));
        } else if (!take_index(conf, cache)) {
            is_good = false;
        }
    }
    return is_good;
}

/* ---- in workers ---- */

static void measure_blocks(struct cache *cache)
{
    struct statvfs info;

    if (statvfs(cache->path->name.data, &info) == 0 && info.f_frsize >= 512 &&
        info.f_frsize <= 1 << 20) {
        cache_index_of(cache)->block_size = (uint32_t) info.f_frsize;
    }
}

bool cache_worker_start(struct generation *generation)
{
    for (struct cache *cache = cache_first(generation); cache != NULL; cache = cache_next(cache)) {
        measure_blocks(cache);
        /* The agent runs with the master's rights: workers could not read files that it writes. */
        if (worker_role == WORKER_SERVES && !cache_manager_start(cache)) {
            return false;
        }
    }
    return true;
}

void cache_worker_quit(struct generation *generation)
{
    for (struct cache *cache = cache_first(generation); cache != NULL; cache = cache_next(cache)) {
        cache_manager_quit(cache);
    }
}

void cache_worker_abort(struct generation *generation)
{
    cache_worker_quit(generation);
}

void cache_worker_end(struct generation *generation)
{
    for (struct cache *cache = cache_first(generation); cache != NULL; cache = cache_next(cache)) {
        cache_kept_drop_all(cache);
        cache_manager_end(cache);
    }
}

/* ---- counters ---- */

void cache_count(const struct cache *cache, enum cache_counter which)
{
    struct cache_cell *cell = &cache_index_of(cache)->cells[worker_slot % CACHE_CELLS];

    atomic_fetch_add_explicit(&cell->counts[which], 1, memory_order_relaxed);
}

void cache_count_body(const struct cache *cache, enum cache_counter which, uint64_t bytes,
                      bool is_written)
{
    struct cache_cell *cell = &cache_index_of(cache)->cells[worker_slot % CACHE_CELLS];

    atomic_fetch_add_explicit(&cell->bytes[which], bytes, memory_order_relaxed);
    if (is_written) {
        atomic_fetch_add_explicit(&cell->written[which], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&cell->written_bytes[which], bytes, memory_order_relaxed);
    }
}

struct cache_figures cache_figures_of(const struct cache *cache, enum cache_counter which)
{
    struct cache_index *index = cache_index_of(cache);
    struct cache_figures out = {0};

    for (int i = 0; i < CACHE_CELLS; i++) {
        out.requests += index->cells[i].counts[which];
        out.bytes += index->cells[i].bytes[which];
        out.written += index->cells[i].written[which];
        out.written_bytes += index->cells[i].written_bytes[which];
    }
    return out;
}

void cache_stats_reset(const struct cache *cache)
{
    struct cache_index *index = cache_index_of(cache);

    for (int i = 0; i < CACHE_CELLS; i++) {
        for (int which = 0; which < CACHE_COUNTERS; which++) {
            index->cells[i].counts[which] = index->cells[i].bytes[which] = 0;
            index->cells[i].written[which] = index->cells[i].written_bytes[which] = 0;
        }
        for (int which = 0; which < CACHE_SHARED_COUNTERS; which++) {
            index->cells[i].shared[which] = 0;
        }
    }
}

void cache_count_shared(const struct cache *cache, enum cache_shared_counter which)
{
    struct cache_cell *cell = &cache_index_of(cache)->cells[worker_slot % CACHE_CELLS];

    atomic_fetch_add_explicit(&cell->shared[which], 1, memory_order_relaxed);
}

uint64_t cache_shared_figure(const struct cache *cache, enum cache_shared_counter which)
{
    const struct cache_index *index = cache_index_of(cache);
    uint64_t all = 0;

    for (int i = 0; i < CACHE_CELLS; i++) {
        all += atomic_load_explicit(&index->cells[i].shared[which], memory_order_relaxed);
    }
    return all;
}

static uint64_t sum(const struct cache_index *index, enum cache_counter which)
{
    uint64_t all = 0;

    for (int i = 0; i < CACHE_CELLS; i++) {
        all += atomic_load_explicit(&index->cells[i].counts[which], memory_order_relaxed);
    }
    return all;
}

void cache_stats_of(const struct cache *cache, struct cache_stats *out)
{
    struct cache_index *index = cache_index_of(cache);

    cache_index_take(index);
    out->entries = index->files;
    out->bytes = index->size;
    out->is_cold = index->is_cold;
    cache_index_release(index);
    out->max_size = cache->max_size;
    out->hits = sum(index, CACHE_COUNT_HIT);
    out->misses = sum(index, CACHE_COUNT_MISS);
    out->expired = sum(index, CACHE_COUNT_EXPIRED);
    out->stale = sum(index, CACHE_COUNT_STALE);
    out->updating = sum(index, CACHE_COUNT_UPDATING);
    out->revalidated = sum(index, CACHE_COUNT_REVALIDATED);
    out->bypassed = sum(index, CACHE_COUNT_BYPASS);
    out->scarce = sum(index, CACHE_COUNT_SCARCE);
}
