/* keyval and keyval_zone: variables whose values are in a zone that changes at run time. */
#include "shared/keyval/keyval.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/parse.h"
#include "conf/template.h"
#include "server/generation.h"
#include "shared/keyval/file.h"
#include "shared/keyval/redis.h"

#define ZONE_LEAST (8 * 4096)

enum {
    SAVE_AFTER_MS = 100,   /* changes within this time are written together */
    SAVE_AGAIN_MS = 10000, /* after a failure to write the file */
    SAVING_MOST = 1024,    /* files that may wait for the thread */
    SAME_EXPIRY_MS = 1000, /* two expiry times count as equal within this difference */
    SWEEP_EVERY_MS = 1000, /* how often a full zone is searched for expired pairs */
};

const struct keyval_kind keyval_http = {.state = "http keyvals",
                                        .variables = "http keyval variables",
                                        .redis_variables = "http redis variables"};
const struct keyval_kind keyval_stream = {.state = "stream keyvals",
                                          .variables = "stream keyval variables",
                                          .redis_variables = "stream redis variables"};

static struct keyval_zone **list_of(struct conf *conf, const struct keyval_kind *kind)
{
    return conf_state(conf, kind->state, sizeof(struct keyval_zone *));
}

struct keyval_zone *keyval_zones_of(struct conf *conf, const struct keyval_kind *kind)
{
    return *list_of(conf, kind);
}

/* ---- at run time ---- */

static bool shared_keyval_get_value(struct variable_env *env, const struct variable *variable,
                                    struct str *out)
{
    const struct keyval_variable *keyval = (const struct keyval_variable *) variable->data;

    return keyval_find(keyval->zone->store, template_text(keyval->key, env), env->arena, out);
}

/* ---- the file ---- */

/* The file is written by a thread. On the heap, since it may outlive the zone, which belongs to the
 * worker. */
struct keyval_saving {
    struct thread_job job;
    struct list node;         /* on `savings` */
    struct thread_pool *pool; /* the pool that has the job */
    struct keyval_zone *zone; /* NULL: the worker has ended */
    int error;                /* errno of a failure, or 0 */
    _Atomic bool is_written;
};

/* Includes those that were still running when a worker ended. */
static struct list savings = {.next = &savings, .prev = &savings};

static void saving_free(struct keyval_saving *saving)
{
    list_remove(&saving->node);
    free(saving);
}

static void save_later(struct keyval_zone *zone, uint64_t after_ms)
{
    timer_set(&zone->save_timer, clock_now.now_ms + after_ms);
}

static void write_on_thread(struct thread_job *job)
{
    struct keyval_saving *saving = container_of(job, struct keyval_saving, job);

    saving->error = keyval_file_write(saving->zone);
    saving->is_written = true;
}

static bool tell_written(const struct keyval_zone *zone, int error)
{
    if (error != 0) {
        log_error(log_main, error, "cannot write \"%s\"", zone->file.data);
    }
    return error == 0;
}

static void write_is_done(struct thread_job *job)
{
    struct keyval_saving *saving = container_of(job, struct keyval_saving, job);
    struct keyval_zone *zone = saving->zone;

    if (zone != NULL) {
        zone->saving = NULL;
        if (!tell_written(zone, saving->error)) {
            save_later(zone, SAVE_AGAIN_MS);
        } else if (keyval_file_is_old(zone)) {
            save_later(zone, SAVE_AFTER_MS);
        }
    }
    saving_free(saving);
}

static void save(struct timer *fired)
{
    struct keyval_zone *zone = container_of(fired, struct keyval_zone, save_timer);
    struct thread_pool *pool = worker_own_thread_pool(STR("keyval"), 1, SAVING_MOST);

    if (zone->saving != NULL) {
        return; /* write_is_done checks for further changes */
    }
    struct keyval_saving *saving = calloc(1, sizeof(*saving));
    if (saving == NULL) {
        save_later(zone, SAVE_AGAIN_MS);
        return;
    }
    *saving = (struct keyval_saving){.job = {.work = write_on_thread, .done = write_is_done},
                                     .pool = pool,
                                     .zone = zone};
    if (pool == NULL || !thread_pool_submit(pool, &saving->job)) {
        free(saving);
        save_later(zone, SAVE_AGAIN_MS);
        return;
    }
    list_push_back(&savings, &saving->node);
    zone->saving = saving;
}

static void file_is_old(struct keyval_zone *zone)
{
    if (zone->file.len != 0 && zone->save_timer.deadline_ms == NO_DEADLINE &&
        zone->saving == NULL) {
        save_later(zone, SAVE_AFTER_MS);
    }
}

static enum keyval_result make_or_change(struct keyval_store *store, const struct vec *changes)
{
    enum keyval_result result = keyval_make(store, changes);

    return result == KEYVAL_EXISTS ? keyval_change(store, changes) : result;
}

/*
 * Between a change and store_table_note, another process of this node may have overwritten it with
 * an older value of another node. After the note that is not possible, so the change is made again:
 * it is the newer one.
 */
static void change_stays(const struct keyval_zone *zone, const struct keyval_change *change,
                         struct str name, struct arena *arena)
{
    const struct vec changes = {.items = (void *) change, .count = 1};
    struct keyval_pair now;
    bool is_there = keyval_get(zone->store, name, arena, &now);

    if (change->is_deleted || change->keeps_value) {
        if (is_there && (change->is_deleted || now.expires_ms != change->pair.expires_ms)) {
            keyval_change(zone->store, &changes);
        }
    } else if (!is_there || now.expires_ms != change->pair.expires_ms ||
               !str_equal(now.value, change->pair.value)) {
        make_or_change(zone->store, &changes);
    }
}

void keyval_changed(struct keyval_zone *zone, const struct vec *changes)
{
    struct arena arena;
    struct vec names = {0};

    file_is_old(zone);
    if (zone->table == NULL) {
        return;
    }
    arena_init(&arena);
    vec_each(const struct keyval_change, change, changes) {
        struct str name = keyval_canonical(zone->store, change->pair.key, &arena);
        if (name.len != 0) {
            store_table_note(zone->table, name);
            change_stays(zone, change, name, &arena);
            *vec_add(&names, &arena, struct str) = name;
        }
    }
    store_table_flush(zone->table, &names);
    arena_free(&arena);
}

void keyval_cleared(struct keyval_zone *zone)
{
    file_is_old(zone);
    if (zone->table != NULL) {
        store_table_note_clear(zone->table);
        store_table_flush(zone->table, NULL);
    }
}

void keyval_worker_start(struct conf *conf, const struct keyval_kind *kind)
{
    for (struct keyval_zone *zone = *list_of(conf, kind); zone != NULL; zone = zone->next) {
        timer_init(&zone->save_timer, save);
        if (zone->redis == NULL && keyval_file_is_old(zone)) {
            file_is_old(zone); /* left unsaved by a worker that died */
        }
    }
}

/* Waits for a thread that works on the zone, or is about to. */
static void wait_for_thread(struct keyval_zone *zone)
{
    struct keyval_saving *saving = zone->saving;

    zone->saving = NULL;
    if (thread_pool_withdraw(saving->pool, &saving->job)) {
        saving_free(saving);
        return;
    }
    while (!saving->is_written) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    saving->zone = NULL;
}

void keyval_worker_end(struct conf *conf, const struct keyval_kind *kind)
{
    for (struct keyval_zone *zone = *list_of(conf, kind); zone != NULL; zone = zone->next) {
        timer_remove(&zone->save_timer);
        if (zone->saving != NULL) {
            wait_for_thread(zone);
        }
        if (zone->redis == NULL && keyval_file_is_old(zone)) {
            tell_written(zone, keyval_file_write(zone));
        }
    }
}

/* ---- other nodes ---- */

static bool keyval_item_get(void *owner, struct str name, struct arena *arena,
                            struct store_item *item)
{
    const struct keyval_zone *zone = owner;
    struct keyval_pair pair;
    uint64_t now_ms = keyval_now();

    if (!keyval_get(zone->store, name, arena, &pair) ||
        (pair.expires_ms != KEYVAL_NEVER && pair.expires_ms <= now_ms)) {
        return false;
    }
    item->value = pair.value;
    item->ttl_ms = pair.expires_ms == KEYVAL_NEVER ? 0 : pair.expires_ms - now_ms;
    return true;
}

/* Are the pairs equal, except for the delay of a message? */
static bool is_same_pair(const struct keyval_pair *one, const struct keyval_pair *other)
{
    uint64_t distance = one->expires_ms > other->expires_ms ? one->expires_ms - other->expires_ms
                                                            : other->expires_ms - one->expires_ms;

    return str_equal(one->value, other->value) && distance <= SAME_EXPIRY_MS &&
           (one->expires_ms == KEYVAL_NEVER) == (other->expires_ms == KEYVAL_NEVER);
}

static bool keyval_item_put(void *owner, const struct store_item *item)
{
    struct keyval_zone *zone = owner;
    struct keyval_pair former;
    struct keyval_change change = {
        .pair = {.key = item->name,
                 .value = item->value,
                 .expires_ms = item->ttl_ms == 0 ? KEYVAL_NEVER : keyval_now() + item->ttl_ms}};
    const struct vec changes = {.items = &change, .count = 1};
    struct arena arena;

    arena_init(&arena);
    bool is_known =
        keyval_get(zone->store, item->name, &arena, &former) && is_same_pair(&former, &change.pair);
    arena_free(&arena);
    if (is_known) {
        return true;
    }
    file_is_old(zone);
    enum keyval_result result = make_or_change(zone->store, &changes);
    if (result == KEYVAL_FULL &&
        (zone->swept_ms == 0 || clock_now.now_ms - zone->swept_ms >= SWEEP_EVERY_MS)) {
        zone->swept_ms = clock_now.now_ms;
        for (uint32_t cursor = 0; keyval_visit(zone->store, &cursor, NULL, NULL);) {
        }
        result = make_or_change(zone->store, &changes);
    }
    return result != KEYVAL_FULL;
}

static void keyval_item_drop(void *owner, struct str name)
{
    struct keyval_zone *zone = owner;
    struct keyval_change change = {.pair = {.key = name}, .is_deleted = true};

    if (keyval_change(zone->store, &(const struct vec){.items = &change, .count = 1}) ==
        KEYVAL_DONE) {
        file_is_old(zone);
    }
}

struct name_list {
    const struct keyval_store *store;
    struct arena *arena;
    struct vec *names;
};

static void list_name(const struct keyval_pair *pair, void *arg)
{
    const struct name_list *list = arg;

    *vec_add(list->names, list->arena, struct str) =
        arena_dup(list->arena, keyval_canonical(list->store, pair->key, list->arena));
}

static bool keyval_item_list(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names)
{
    const struct keyval_zone *zone = owner;
    struct name_list list = {zone->store, arena, names};

    return keyval_visit(zone->store, cursor, list_name, &list);
}

static uint64_t keyval_item_count(const void *owner)
{
    return keyval_count(((const struct keyval_zone *) owner)->store);
}

static const struct store_table_kind keyval_table = {.purpose = "keyval",
                                                     .get = keyval_item_get,
                                                     .put = keyval_item_put,
                                                     .drop = keyval_item_drop,
                                                     .list = keyval_item_list,
                                                     .count = keyval_item_count};

/* ---- while the configuration is read ---- */

static struct vec *shared_keyval_variables_of(struct conf *conf, const struct keyval_kind *kind)
{
    return conf_state(conf, kind->variables, sizeof(struct vec));
}

const struct vec *keyval_variables(struct conf *conf, const struct keyval_kind *kind)
{
    return shared_keyval_variables_of(conf, kind);
}

static struct keyval_zone *find_or_make(struct conf *conf, struct conf_node *node,
                                        const struct keyval_kind *kind, struct str name,
                                        uint64_t size)
{
    struct zone *zone = generation_zone(conf->generation, node, name, size, kind);
    struct keyval_zone **link = list_of(conf, kind);

    if (zone == NULL) {
        return NULL;
    }
    while (*link != NULL && (*link)->zone != zone) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        *link = arena_new(conf->arena, struct keyval_zone);
        (*link)->zone = zone;
    }
    return *link;
}

struct keyval_zone *keyval_zone_named(struct conf *conf, struct conf_node *node,
                                      const struct keyval_kind *kind, struct str name)
{
    return find_or_make(conf, node, kind, name, ZONE_LEAST);
}

/* Is it "NAME=" with a value? */
static bool word_takes(struct str word, struct str name, struct str *value)
{
    if (!str_starts(word, name)) {
        return false;
    }
    *value = str_skip(word, name.len);
    return true;
}

bool keyval_read(struct conf *conf, struct conf_node *node, const struct keyval_kind *kind)
{
    struct keyval_variable *keyval = arena_new(conf->arena, struct keyval_variable);
    struct str name;

    if (!word_takes(node->args[3], STR("zone="), &name) || name.len == 0) {
        return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[3]));
    }
    keyval->key = template_compile(conf, node, node->args[1]);
    if (keyval->key == NULL) {
        return false;
    }
    struct variable *variable = variable_define_word(conf, node, node->args[2]);
    if (variable == NULL) {
        return false;
    }
    keyval->zone = find_or_make(conf, node, kind, name, 0);
    if (keyval->zone == NULL) {
        return false;
    }
    keyval->variable = variable;
    variable_compute(variable, shared_keyval_get_value, keyval);
    *vec_add(shared_keyval_variables_of(conf, kind), conf->arena, struct keyval_variable *) =
        keyval;
    if (keyval->zone->redis != NULL) {
        keyval_redis_link(conf, kind, keyval);
    }
    return true;
}

/* The parameters of a `keyval_zone`. */
struct zone_words {
    struct str name, file;
    uint64_t size, timeout_ms;
    enum keyval_type type;
    struct store_sync_words sync;
};

static bool read_size(struct conf *conf, const struct conf_node *node, struct str word,
                      struct str value, struct zone_words *words)
{
    words->name = str_cut(&value, ':');
    if (words->name.len == 0 || value.data == NULL || !parse_size(value, &words->size)) {
        return conf_error(conf, node, "invalid zone size \"%.*s\"", STR_ARG(word));
    }
    if (words->size < ZONE_LEAST) {
        return conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(word));
    }
    return true;
}

static bool shared_keyval_read_word(struct conf *conf, const struct conf_node *node,
                                    struct str word, struct zone_words *words)
{
    static const struct str types[] = {[KEYVAL_STRING] = STR_INIT("string"),
                                       [KEYVAL_IP] = STR_INIT("ip"),
                                       [KEYVAL_PREFIX] = STR_INIT("prefix")};
    struct str value;

    if (word_takes(word, STR("zone="), &value)) {
        return read_size(conf, node, word, value, words);
    }
    if (word_takes(word, STR("state="), &value) && value.len != 0) {
        words->file = conf_full_name(conf, value, false);
        return true;
    }
    if (word_takes(word, STR("timeout="), &value) && parse_msec(value, &words->timeout_ms) &&
        words->timeout_ms != 0 && words->timeout_ms <= INT64_MAX / 2) {
        return true;
    }
    if (word_takes(word, STR("type="), &value)) {
        for (unsigned type = 0; type <= KEYVAL_PREFIX; type++) {
            if (str_equal(value, types[type])) {
                words->type = (enum keyval_type) type;
                return true;
            }
        }
    }
    bool is_sync;
    if (!store_sync_read(conf, node, word, false, &words->sync, &is_sync)) {
        return false;
    }
    return is_sync || conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
}

static bool make_table(struct conf *conf, struct conf_node *node, struct keyval_zone *zone,
                       const struct zone_words *words)
{
    const struct store_table_wanted wanted = {.kind = &keyval_table,
                                              .owner = zone,
                                              .name = zone->zone->name,
                                              .size = words->size,
                                              .words = &words->sync};

    if (!words->sync.is_wanted) {
        return store_sync_check(conf, node, &words->sync);
    }
    zone->table = store_table_new(conf, node, &wanted);
    return zone->table != NULL;
}

static bool make_store(struct conf *conf, struct conf_node *node, struct keyval_zone *zone,
                       const struct zone_words *words)
{
    bool is_new = zone->zone->root == NULL;

    zone->store = keyval_store_of(zone->zone, words->type);
    if (zone->store == NULL) {
        return conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(words->name));
    }
    if (keyval_store_type(zone->store) != words->type) {
        return conf_error(conf, node,
                          "keyval_zone \"%.*s\" has another type than before: give it another "
                          "name or size",
                          STR_ARG(words->name));
    }
    return !is_new || zone->file.len == 0 || keyval_file_read(conf, node, zone);
}

bool keyval_zone_read(struct conf *conf, struct conf_node *node, const struct keyval_kind *kind)
{
    struct zone_words words = {.type = KEYVAL_STRING};

    for (unsigned i = 1; i < node->count; i++) {
        if (!shared_keyval_read_word(conf, node, node->args[i], &words)) {
            return false;
        }
    }
    if (words.name.len == 0) {
        return conf_error(conf, node, "\"keyval_zone\" must have \"zone\" parameter");
    }
    struct keyval_zone *zone = find_or_make(conf, node, kind, words.name, words.size);
    if (zone == NULL) {
        return false;
    }
    if (zone->store != NULL || zone->redis != NULL) {
        return conf_error(conf, node, "duplicate zone \"%.*s\"", STR_ARG(words.name));
    }
    zone->file = words.file;
    zone->timeout_ms = words.timeout_ms;
    return make_store(conf, node, zone, &words) && make_table(conf, node, zone, &words);
}
