/* Purges that reach all nodes. docs/scaling-out.md describes the items. */
#include "cache/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/text.h"
#include "server/process/cells.h"
#include "store/table.h"

enum {
    MEMORY = 1 << 20,    /* for the names of purges that are not in the store yet */
    WAITING_MOST = 4096, /* number of these; beyond it everything is purged instead */
    RECENT = 1024,       /* own purges that are remembered */
    WARN_MS = 60000,     /* between two warnings that too many are waiting */
    TOUCH_MS = 5000,     /* between two writes of the contact time to the disk */
};

static const uint64_t kept_ms =
    3600000; /* purges that a node which was disconnected can still get */
static const uint64_t margin_ms =
    60000; /* for differences between the clocks of store and node, and TOUCH_MS */
static const uint64_t of_key = UINT64_MAX; /* length of a purge of a single key */

/* What is purged: as in the name of an item. */
struct purge_target {
    uint64_t length; /* bytes of the prefix, or of_key */
    uint8_t digest[CACHE_KEY_SIZE];
};

/* A purge that this node made. */
struct own_purge {
    struct purge_target target;
    uint64_t id;      /* value of the item; random, not 0 */
    uint64_t sent_ms; /* since the epoch: when the store certainly had it; 0: not yet */
};

/* Shared by all workers. */
struct purge_log {
    struct shm_lock lock; /* guards what follows */
    uint64_t contact_ms; /* since the epoch: this node had all purges of the store then; 0: never */
    uint32_t made;       /* own purges so far: position of the next, modulo RECENT */
    struct own_purge own[RECENT];
};

struct cache_sync {
    struct cache *cache;
    struct purge_log *log;
    struct store_table *table;
    /* In this process; 0: never. */
    uint64_t touched_ms;
    uint64_t warned_ms;
};

static const char memory_tag;

static uint64_t epoch_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

/* ---- names of items: "k:DIGEST" for a key, "p:LENGTH:DIGEST" for a prefix ---- */

static struct str target_text(const struct purge_target *target, struct arena *arena)
{
    char digest[2 * CACHE_KEY_SIZE];

    hex_encode(digest, target->digest, CACHE_KEY_SIZE);
    return target->length == of_key
               ? arena_printf(arena, "k:%.*s", (int) sizeof(digest), digest)
               : arena_printf(arena, "p:%llu:%.*s", (unsigned long long) target->length,
                              (int) sizeof(digest), digest);
}

/* False: not a name of this table. */
static bool target_read(struct str name, struct purge_target *target)
{
    struct str kind = str_cut(&name, ':');

    target->length = of_key;
    if (str_is(kind, "p")) {
        struct str length = str_cut(&name, ':');
        if (!parse_uint(length, &target->length) || target->length == of_key) {
            return false;
        }
    } else if (!str_is(kind, "k")) {
        return false;
    }
    return name.data != NULL && cache_hash_of_name(name, target->digest);
}

static bool is_same_target(const struct purge_target *one, const struct purge_target *other)
{
    return one->length == other->length &&
           memcmp(one->digest, other->digest, sizeof(one->digest)) == 0;
}

/* ---- purges of this node ---- */

/* A process that died with the lock may have left an incomplete purge: it matches none, or has the
 * id of another one. */
static void log_lock(struct purge_log *log)
{
    shm_lock_take(&log->lock);
}

/* The last purge of this target, or NULL. With the lock held. */
static struct own_purge *own_find(struct purge_log *log, const struct purge_target *target)
{
    uint32_t count = log->made < RECENT ? log->made : RECENT;

    for (uint32_t i = 1; i <= count; i++) {
        struct own_purge *own = &log->own[(log->made - i) % RECENT];
        if (is_same_target(&own->target, target)) {
            return own;
        }
    }
    return NULL;
}

static uint64_t new_id(void)
{
    uint64_t id;

    random_bytes(&id, sizeof(id));
    return id | 1;
}

static void warn_of_many(struct cache_sync *sync)
{
    counters_mine->limited++;
    if (sync->warned_ms == 0 || cache_now_ms() - sync->warned_ms > WARN_MS) {
        sync->warned_ms = cache_now_ms();
        log_warn(
            log_main, 0,
            "too many purges of cache \"%.*s\" wait for the store: the other nodes purge the whole cache",
            STR_ARG(sync->cache->name));
    }
}

/* Sends a purge to the other nodes. MAY WAIT. */
static void purge_send(struct cache_sync *sync, struct purge_target target)
{
    struct purge_log *log = sync->log;
    struct arena arena;

    if (store_table_waiting(sync->table) >= WAITING_MOST && target.length != 0) {
        warn_of_many(sync);
        target.length = 0;
        md5_of(STR_NONE, target.digest);
    }
    arena_init(&arena);
    /* The name is noted first: a purge that is recorded and not noted would be taken for sent. */
    struct str name = target_text(&target, &arena);
    store_table_note(sync->table, name);
    log_lock(log);
    log->own[log->made % RECENT] = (struct own_purge){.target = target, .id = new_id()};
    log->made++;
    shm_lock_release(&log->lock);
    store_table_flush(sync->table, &(const struct vec){.items = &name, .count = 1});
    arena_free(&arena);
}

void cache_sync_key(struct cache_sync *sync, const uint8_t digest[CACHE_KEY_SIZE])
{
    struct purge_target target = {.length = of_key};

    memcpy(target.digest, digest, CACHE_KEY_SIZE);
    purge_send(sync, target);
}

void cache_sync_prefix(struct cache_sync *sync, uint64_t length,
                       const uint8_t digest[CACHE_KEY_SIZE])
{
    struct purge_target target = {.length = length};

    memcpy(target.digest, digest, CACHE_KEY_SIZE);
    purge_send(sync, target);
}

/* ---- the table ---- */

/* A purge that waited for the store has its full lifetime from when it gets there, since no other
 * node could know it before. */
static bool purge_item_get(void *owner, struct str name, struct arena *arena,
                           struct store_item *item)
{
    struct purge_log *log = ((struct cache_sync *) owner)->log;
    struct purge_target target;
    uint64_t id = new_id(), age_ms = 0;

    if (!target_read(name, &target)) {
        return false;
    }
    log_lock(log);
    const struct own_purge *own = own_find(log, &target);
    if (own != NULL) {
        id = own->id;
        age_ms = own->sent_ms == 0 ? 0 : epoch_ms() - own->sent_ms;
    }
    shm_lock_release(&log->lock);
    item->value = arena_printf(arena, "%016llx", (unsigned long long) id);
    item->ttl_ms = age_ms < kept_ms ? kept_ms - age_ms : 0;
    return item->ttl_ms != 0;
}

/* Is it a purge of this node, or one that was made before this node last read all? */
static bool is_known(const struct cache_sync *sync, const struct purge_target *target, uint64_t id,
                     uint64_t made_ms)
{
    struct purge_log *log = sync->log;

    log_lock(log);
    const struct own_purge *own = own_find(log, target);
    bool is_one = (own != NULL && own->id == id) || made_ms + margin_ms < log->contact_ms;
    shm_lock_release(&log->lock);
    return is_one;
}

static bool purge_item_put(void *owner, const struct store_item *item)
{
    struct cache_sync *sync = owner;
    struct purge_target target;
    uint64_t id;

    if (!target_read(item->name, &target) || !parse_hex(item->value, &id)) {
        return true; /* not an item of this table */
    }
    uint64_t left_ms = item->ttl_ms < kept_ms ? item->ttl_ms : kept_ms;
    if (is_known(sync, &target, id, epoch_ms() - (kept_ms - left_ms))) {
        return true;
    }
    if (target.length == of_key) {
        cache_purge_hash(sync->cache, target.digest, log_main);
    } else {
        cache_purge_digest(sync->cache, target.length, target.digest);
    }
    return true;
}

/* An expired purge needs no action. */
static void purge_item_drop(void *owner, struct str name)
{
}

/* Lists the items for a store that has lost data. */
static bool purge_item_list(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names)
{
    struct purge_log *log = ((struct cache_sync *) owner)->log;

    log_lock(log);
    uint32_t count = log->made < RECENT ? log->made : RECENT;
    for (uint32_t i = 0; i < count; i++) {
        const struct own_purge *own = &log->own[i];
        if (own->sent_ms == 0 || own->sent_ms + kept_ms > epoch_ms()) {
            *vec_add(names, arena, struct str) = target_text(&own->target, arena);
        }
    }
    shm_lock_release(&log->lock);
    return false;
}

/* ---- contact ---- */

static void contact_name(const struct cache *cache, char name[CACHE_NAME_MAX])
{
    snprintf(name, CACHE_NAME_MAX, "%.*s/.sync", STR_ARG(cache->path->name));
}

/* The modification time of the contact file, which outlives the process: until then this node had
 * all purges. 0: no file. */
static uint64_t contact_read(const struct cache *cache)
{
    char name[CACHE_NAME_MAX];
    struct stat info;

    contact_name(cache, name);
    return stat(name, &info) == 0 ? (uint64_t) info.st_mtim.tv_sec * 1000 : 0;
}

/* Runs on a thread. */
static void contact_write(void *arg)
{
    const struct cache *cache = arg;
    char name[CACHE_NAME_MAX];

    contact_name(cache, name);
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd == -1 || futimens(fd, NULL) != 0) {
        log_error(log_main, errno, "cannot write \"%s\"", name);
    }
    if (fd != -1) {
        close(fd);
    }
}

/* Called after an exchange with the store. MAY WAIT. */
static void purges_exchanged(void *owner, struct store_table *table, bool is_read)
{
    struct cache_sync *sync = owner;
    struct purge_log *log = sync->log;
    uint64_t now_ms = epoch_ms();
    uint8_t all[CACHE_KEY_SIZE];

    if (!is_read) {
        return;
    }
    log_lock(log);
    uint64_t former_ms = log->contact_ms;
    bool is_all_sent = store_table_waiting(table) == 0;
    log->contact_ms = now_ms;
    for (uint32_t i = 1; is_all_sent && i <= RECENT && i <= log->made; i++) {
        struct own_purge *own = &log->own[(log->made - i) % RECENT];
        is_all_sent = own->sent_ms == 0; /* those before it were sent as well */
        own->sent_ms = is_all_sent ? now_ms : own->sent_ms;
    }
    shm_lock_release(&log->lock);
    if (former_ms != 0 && former_ms + kept_ms - margin_ms < now_ms) {
        log_warn(
            log_main, 0,
            "cache \"%.*s\": this node was disconnected from the store for longer than purges are kept; the whole cache is purged",
            STR_ARG(sync->cache->name));
        md5_of(STR_NONE, all);
        cache_purge_digest(sync->cache, 0, all);
    }
    if (sync->touched_ms == 0 || cache_now_ms() - sync->touched_ms > TOUCH_MS) {
        sync->touched_ms = cache_now_ms();
        cache_work(contact_write, sync->cache);
    }
}

static const struct store_table_kind purge_table = {.purpose = "cache_purge",
                                                    .get = purge_item_get,
                                                    .put = purge_item_put,
                                                    .drop = purge_item_drop,
                                                    .list = purge_item_list,
                                                    .exchanged = purges_exchanged};

struct cache_sync *cache_sync_new(struct conf *conf, struct conf_node *node, struct cache *cache,
                                  const struct store_sync_words *words)
{
    struct cache_sync *sync = arena_new(conf->arena, struct cache_sync);
    const struct store_table_wanted wanted = {.kind = &purge_table,
                                              .owner = sync,
                                              .name = cache->name,
                                              .size = MEMORY,
                                              .words = words};
    struct zone *memory =
        generation_zone(conf->generation, node,
                        arena_printf(conf->arena, "%.*s purges", STR_ARG(cache->name)),
                        sizeof(struct purge_log) + 64 * 1024, &memory_tag);

    if (memory == NULL) {
        return NULL;
    }
    if (memory->root == NULL) {
        struct purge_log *log = slab_alloc(memory->slab, sizeof(*log));
        if (log == NULL) {
            conf_error(conf, node, "no memory for purges of cache \"%.*s\"", STR_ARG(cache->name));
            return NULL;
        }
        shm_lock_init(&log->lock);
        log->contact_ms = contact_read(cache);
        memory->root = log;
    }
    sync->cache = cache;
    sync->log = memory->root;
    sync->table = store_table_new(conf, node, &wanted);
    return sync->table == NULL ? NULL : sync;
}
