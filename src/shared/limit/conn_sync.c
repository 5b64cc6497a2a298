/* limit_conn with `sync`. docs/scaling-out.md describes the items. */
#include "shared/limit/conn_sync.h"

#include <stdio.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/parse.h"
#include "server/generation.h"
#include "shared/limit/counts.h"

enum {
    INTERVAL_MS = 50,
    LEASE_MS = 2000, /* of a count: what a node that died had under way is free then */
    RENEW_MS = 700,  /* age at which a node gives its count again */
    LOCK_MOST = 64,  /* records that are handled under one lock */
    NAME_LENGTH = 32 + 1 + 16,
};

enum lent_kind {
    LENT_SUM,   /* of a key: what other nodes have under way */
    LENT_OTHER, /* of a key and another node */
    LENT_OWN,   /* of a key: what this node has given to others */
};

/* A record; which keys these have: lent_key. */
struct lent {
    struct shm_record record;
    struct shm_key name;  /* of the key, on all nodes */
    struct shm_key local; /* of LENT_OWN: the key in the zone */
    uint64_t node;        /* of LENT_OTHER */
    uint64_t time_ms;     /* of LENT_OTHER: when it expires; of LENT_OWN: when it was given */
    uint32_t kind;        /* enum lent_kind */
    uint32_t count;
};

/* The head of the table. */
struct lent_head {
    uint64_t node; /* this one; random */
};

struct conn_sync {
    const struct limit_zone *zone;
    struct store_table *table;
    struct store *store;
    struct shm_table *lent;
    uint64_t secret[4]; /* of names: the same on all nodes */
};

static const char memory_tag;

static uint64_t own_node(const struct conn_sync *sync)
{
    return ((const struct lent_head *) shm_table_head(sync->lent))->node;
}

/* Where the record of a name is: names are hashes with a secret, so that kinds and nodes that are mixed in do not meet. */
static struct shm_key lent_key(const struct shm_key *name, enum lent_kind kind, uint64_t node)
{
    return (struct shm_key){{name->words[0] + kind, name->words[1] ^ node}};
}

static struct lent *lent_find(const struct conn_sync *sync, const struct shm_key *name,
                              enum lent_kind kind, uint64_t node)
{
    struct shm_key key = lent_key(name, kind, node);

    return shm_table_find(sync->lent, &key);
}

/* Finds it, or makes it; NULL: no room. */
static struct lent *lent_make(const struct conn_sync *sync, const struct shm_key *name,
                              enum lent_kind kind, uint64_t node)
{
    struct shm_key key = lent_key(name, kind, node);
    struct lent *lent = shm_table_find(sync->lent, &key);

    if (lent == NULL) {
        lent = shm_table_add(sync->lent, &key);
        if (lent != NULL) {
            lent->name = *name;
            lent->kind = kind;
            lent->node = node;
        }
    }
    return lent;
}

/* ---- names of items: "KEY:NODE" in hexadecimal digits ---- */

static struct str name_text(struct arena *arena, const struct shm_key *name, uint64_t node)
{
    return arena_printf(arena, "%016llx%016llx:%016llx", (unsigned long long) name->words[0],
                        (unsigned long long) name->words[1], (unsigned long long) node);
}

static bool name_read(struct str text, struct shm_key *name, uint64_t *node)
{
    return text.len == NAME_LENGTH && text.data[32] == ':' &&
           parse_hex(str_head(text, 16), &name->words[0]) &&
           parse_hex(str_head(str_skip(text, 16), 16), &name->words[1]) &&
           parse_hex(str_skip(text, 33), node);
}

/* ---- what others have ---- */

/* Under the lock. What another node has is so much now; 0: nothing. */
static bool other_set(const struct conn_sync *sync, const struct shm_key *name, uint64_t node,
                      uint32_t count, uint64_t expires_ms)
{
    struct lent *sum = lent_make(sync, name, LENT_SUM, 0);
    struct lent *other = sum == NULL ? NULL : lent_make(sync, name, LENT_OTHER, node);

    if (other != NULL) {
        sum->count += count - other->count;
        other->count = count;
        other->time_ms = expires_ms;
        shm_table_touch(sync->lent, other);
        if (count == 0) {
            shm_table_drop(sync->lent, other);
        }
    }
    if (sum != NULL && sum->count == 0) {
        shm_table_drop(sync->lent, sum);
    }
    return other != NULL;
}

/* A process died inside: what it left may not agree, and what others have is read again when they renew it. */
static void lent_lock(const struct conn_sync *sync)
{
    if (!shm_table_lock(sync->lent)) {
        return;
    }
    for (uint32_t i = 0; i < shm_table_count(sync->lent); i++) {
        struct lent *lent = shm_table_at(sync->lent, i);
        if (lent->record.kind == SHM_KEYED) {
            shm_table_drop(sync->lent, lent);
        }
    }
}

uint32_t conn_sync_others(const struct conn_sync *sync, const struct shm_key *key,
                          struct variable_env *env)
{
    struct shm_key name;

    limit_zone_name(sync->zone, env, sync->secret, &name);
    lent_lock(sync);
    struct lent *own = lent_make(sync, &name, LENT_OWN, 0);
    if (own != NULL) {
        own->local = *key;
    }
    const struct lent *sum = lent_find(sync, &name, LENT_SUM, 0);
    uint32_t count = sum == NULL ? 0 : sum->count;
    shm_table_unlock(sync->lent);
    return count;
}

/* ---- the table ---- */

static bool conn_item_get(void *owner, struct str name, struct arena *arena,
                          struct store_item *item)
{
    struct conn_sync *sync = owner;
    struct shm_key key;
    uint64_t node;
    uint32_t count = 0;

    if (!name_read(name, &key, &node) || node != own_node(sync)) {
        return false;
    }
    lent_lock(sync);
    struct lent *own = lent_find(sync, &key, LENT_OWN, 0);
    if (own != NULL) {
        count = count_now(sync->zone->table, &own->local);
        own->count = count;
        own->time_ms = clock_now.now_ms;
        if (count == 0) {
            shm_table_drop(sync->lent, own);
        }
    }
    shm_table_unlock(sync->lent);
    item->value = arena_printf(arena, "%u", count);
    item->ttl_ms = LEASE_MS;
    return count != 0;
}

static bool conn_item_put(void *owner, const struct store_item *item)
{
    struct conn_sync *sync = owner;
    struct shm_key key;
    uint64_t node, count;

    if (!name_read(item->name, &key, &node) || node == own_node(sync) ||
        !parse_uint(item->value, &count) || count > UINT16_MAX) {
        return true; /* nothing of ours */
    }
    uint64_t lasts_ms = item->ttl_ms < LEASE_MS ? item->ttl_ms : LEASE_MS;
    lent_lock(sync);
    bool has_room = other_set(sync, &key, node, (uint32_t) count, clock_now.now_ms + lasts_ms);
    shm_table_unlock(sync->lent);
    return has_room;
}

static void conn_item_drop(void *owner, struct str name)
{
    struct conn_sync *sync = owner;
    struct shm_key key;
    uint64_t node;

    if (name_read(name, &key, &node) && node != own_node(sync)) {
        lent_lock(sync);
        if (lent_find(sync, &key, LENT_OTHER, node) != NULL) {
            other_set(sync, &key, node, 0, 0);
        }
        shm_table_unlock(sync->lent);
    }
}

/* Of its own counts a node gives all again in time. */
static bool conn_item_list(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names)
{
    return false;
}

/* What this node's record, or that of another one, needs now. Under the lock. Gives the name of an item to be sent, or an empty one. */
static struct str look_at(struct conn_sync *sync, struct lent *lent, struct arena *arena)
{
    uint64_t now_ms = clock_now.now_ms;

    if (lent->record.kind != SHM_KEYED) {
        return STR_NONE;
    }
    if (lent->kind == LENT_OTHER && lent->time_ms <= now_ms) {
        struct shm_key name = lent->name;
        other_set(sync, &name, lent->node, 0, 0);
        return STR_NONE;
    }
    if (lent->kind != LENT_OWN) {
        return STR_NONE;
    }
    uint32_t count = count_now(sync->zone->table, &lent->local);
    if (count == lent->count && (count == 0 || now_ms - lent->time_ms < RENEW_MS)) {
        if (count == 0) {
            shm_table_drop(sync->lent, lent); /* refused, or over before others could know */
        }
        return STR_NONE;
    }
    return name_text(arena, &lent->name, own_node(sync));
}

/* Counts that have changed since they were given, or are to be renewed, are noted; those of nodes that have gone expire. */
static void conn_exchanged(void *owner, struct store_table *table, bool is_read)
{
    struct conn_sync *sync = owner;

    for (uint32_t first = 0; first < shm_table_count(sync->lent); first += LOCK_MOST) {
        struct str names[LOCK_MOST];
        struct arena arena;

        arena_init(&arena);
        lent_lock(sync);
        uint32_t count = shm_table_count(sync->lent), end = first + LOCK_MOST;
        for (uint32_t i = first; i < end; i++) {
            names[i - first] =
                i < count ? look_at(sync, shm_table_at(sync->lent, i), &arena) : STR_NONE;
        }
        shm_table_unlock(sync->lent);
        for (unsigned i = 0; i < LOCK_MOST; i++) {
            if (names[i].len != 0) {
                store_table_note(table, names[i]);
            }
        }
        arena_free(&arena);
    }
}

static const struct store_table_kind conn_table = {.purpose = "limit_conn",
                                                   .get = conn_item_get,
                                                   .put = conn_item_put,
                                                   .drop = conn_item_drop,
                                                   .list = conn_item_list,
                                                   .exchanged = conn_exchanged};

/* ---- the configuration ---- */

struct conn_sync *conn_sync_new(struct conf *conf, struct conf_node *node,
                                const struct limit_zone *zone, const struct store_sync_words *words)
{
    struct conn_sync *sync = arena_new(conf->arena, struct conn_sync);
    const struct store_table_wanted wanted = {.kind = &conn_table,
                                              .owner = sync,
                                              .name = zone->zone->name,
                                              .size = zone->zone->size,
                                              .words = words,
                                              .interval_ms = INTERVAL_MS};
    struct zone *memory =
        generation_zone(conf->generation, node,
                        arena_printf(conf->arena, "%.*s others", STR_ARG(zone->zone->name)),
                        zone->zone->size, &memory_tag);

    sync->zone = zone;
    sync->store = store_named(conf, node, words->store);
    if (memory == NULL || sync->store == NULL) {
        return NULL;
    }
    sync->lent = shm_table_of(memory, sizeof(struct lent), sizeof(struct lent_head));
    if (sync->lent == NULL) {
        conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(zone->zone->name));
        return NULL;
    }
    struct lent_head *head = shm_table_head(sync->lent);
    if (head->node == 0) {
        random_bytes(&head->node, sizeof(head->node));
    }
    sync->table = store_table_new(conf, node, &wanted);
    return sync->table == NULL ? NULL : sync;
}

void conn_sync_prepare(struct conn_sync *sync)
{
    store_secret(sync->store, STR("limit_conn name"), sync->zone->zone->name, sync->secret);
}
