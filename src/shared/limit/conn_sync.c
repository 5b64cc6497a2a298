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
    LEASE_MS = 2000,        /* of a node: after this time its counts are dropped if it died */
    LEASE_RENEW_MS = 700,   /* age at which a node renews its lease */
    COUNT_MS = 60000,       /* how long a count is kept in the store */
    COUNT_RENEW_MS = 20000, /* age at which a node sends a count again */
    LOCK_MOST = 64,         /* records that are processed while the lock is held */
    NAME_LENGTH = 32 + 1 + 16,
};

enum lent_kind {
    LENT_SUM,   /* of a key: the total of other nodes */
    LENT_OTHER, /* of a key and another node: its count */
    LENT_OWN,   /* of a key: the count that this node has sent */
    LENT_NODE,  /* of another node: its lease */
};

/* A record; lent_key makes its key. */
struct lent {
    struct shm_record record;
    struct shm_key name;  /* of the key, the same on all nodes */
    struct shm_key local; /* of LENT_OWN: the key in this node's zone */
    uint64_t node;        /* of LENT_OTHER and LENT_NODE */
    uint64_t time_ms;     /* when these expire; for LENT_OWN: when the count was sent */
    uint32_t kind;        /* enum lent_kind */
    uint32_t count;
    uint64_t is_counted; /* of LENT_OTHER: the sum includes it, since its node is alive */
};

/* The head of the table. */
struct lent_head {
    uint64_t node;           /* this node; random */
    uint64_t lease_given_ms; /* when it was last renewed */
};

struct conn_sync {
    const struct limit_zone *zone;
    struct store_table *table;
    struct store *store;
    struct shm_table *lent;
    uint64_t secret[4]; /* for names: the same on all nodes */
};

static const char memory_tag;

static const struct shm_key no_key; /* in the name of an item: it is the lease of a node */

static struct lent_head *lent_head_of(const struct conn_sync *sync)
{
    return shm_table_head(sync->lent);
}

static uint64_t own_node(const struct conn_sync *sync)
{
    return lent_head_of(sync)->node;
}

/* The key of a record. Names are hashes with a secret, and nodes are random numbers, so that
 * combinations with a kind and a node do not collide. */
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

/* Finds or makes a record; NULL: no memory. */
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

/* ---- counts of other nodes ---- */

/* All of these functions are called with the lock held. */

/* Sets the end of another node's lease. 0: a node without a lease gets one of the usual length, as
 * its lease may not have been read yet. */
static struct lent *lease_set(const struct conn_sync *sync, uint64_t node, uint64_t expires_ms)
{
    struct lent *lease = lent_make(sync, &no_key, LENT_NODE, node);

    if (lease != NULL && (expires_ms != 0 || lease->time_ms == 0)) {
        lease->time_ms = expires_ms != 0 ? expires_ms : clock_now.now_ms + LEASE_MS;
    }
    return lease;
}

/* Is the node alive? Drops a lease that ended long ago, when the counts of its node have expired as
   well. */
static bool lease_holds(const struct conn_sync *sync, struct lent *lease)
{
    if (lease == NULL || lease->time_ms > clock_now.now_ms) {
        return lease != NULL;
    }
    if (clock_now.now_ms - lease->time_ms > COUNT_MS) {
        shm_table_drop(sync->lent, lease);
    }
    return false;
}

/* The sum includes the count of another node as long as that is alive. */
static void other_count(struct lent *sum, struct lent *other, bool is_counted, uint32_t count)
{
    sum->count -= other->is_counted ? other->count : 0;
    sum->count += is_counted ? count : 0;
    other->is_counted = is_counted;
    other->count = count;
}

/* Drops the sum with the last record of its key that it includes. */
static void other_drop(const struct conn_sync *sync, struct lent *other)
{
    struct lent *sum = lent_find(sync, &other->name, LENT_SUM, 0);

    if (sum != NULL) {
        other_count(sum, other, false, 0);
        if (sum->count == 0) {
            shm_table_drop(sync->lent, sum);
        }
    }
    shm_table_drop(sync->lent, other);
}

/* Sets the count of another node; 0 drops it. False: no memory. */
static bool other_set(const struct conn_sync *sync, const struct shm_key *name, uint64_t node,
                      uint32_t count, uint64_t expires_ms)
{
    struct lent *other = lent_make(sync, name, LENT_OTHER, node);

    if (other == NULL) {
        return false;
    }
    struct lent *lease = count == 0 ? NULL : lease_set(sync, node, 0);
    struct lent *sum = lease == NULL ? NULL : lent_make(sync, name, LENT_SUM, 0);
    if (sum == NULL) {
        other_drop(sync, other);
        return count == 0;
    }
    other_count(sum, other, lease_holds(sync, lease), count);
    other->time_ms = expires_ms;
    return true;
}

/* If a process died while it held the lock, the counts of others may be inconsistent, so they are
   read again. */
static void lent_lock(const struct conn_sync *sync)
{
    if (!shm_table_lock(sync->lent)) {
        return;
    }
    for (uint32_t i = 0; i < shm_table_count(sync->lent); i++) {
        struct lent *lent = shm_table_at(sync->lent, i);
        if (lent->record.kind == SHM_KEYED && lent->kind != LENT_OWN) {
            shm_table_drop(sync->lent, lent);
        }
    }
    store_table_reread(sync->table);
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

/* The present count of one of this node's items, which is being sent; 1 for the lease. Called with
   the lock held. */
static uint32_t own_give(struct conn_sync *sync, const struct shm_key *key)
{
    if (memcmp(key, &no_key, sizeof(*key)) == 0) {
        lent_head_of(sync)->lease_given_ms = clock_now.now_ms;
        return 1;
    }
    struct lent *own = lent_find(sync, key, LENT_OWN, 0);
    if (own == NULL) {
        return 0;
    }
    own->count = count_now(sync->zone->table, &own->local);
    own->time_ms = clock_now.now_ms;
    uint32_t count = own->count;
    if (count == 0) {
        shm_table_drop(sync->lent, own);
    }
    return count;
}

static bool conn_item_get(void *owner, struct str name, struct arena *arena,
                          struct store_item *item)
{
    struct conn_sync *sync = owner;
    struct shm_key key;
    uint64_t node;

    if (!name_read(name, &key, &node) || node != own_node(sync)) {
        return false;
    }
    lent_lock(sync);
    uint32_t count = own_give(sync, &key);
    shm_table_unlock(sync->lent);
    item->value = arena_printf(arena, "%u", count);
    item->ttl_ms = memcmp(&key, &no_key, sizeof(key)) == 0 ? LEASE_MS : COUNT_MS;
    return count != 0;
}

static bool conn_item_put(void *owner, const struct store_item *item)
{
    struct conn_sync *sync = owner;
    struct shm_key key;
    uint64_t node, count;
    bool has_room;

    if (!name_read(item->name, &key, &node) || node == own_node(sync) ||
        !parse_uint(item->value, &count) || count > UINT16_MAX) {
        return true; /* not an item of another node */
    }
    bool is_lease = memcmp(&key, &no_key, sizeof(key)) == 0;
    uint64_t most_ms = is_lease ? LEASE_MS : COUNT_MS;
    uint64_t expires_ms = clock_now.now_ms + (item->ttl_ms < most_ms ? item->ttl_ms : most_ms);
    lent_lock(sync);
    if (is_lease) {
        has_room = lease_set(sync, node, expires_ms) != NULL;
    } else {
        has_room = other_set(sync, &key, node, (uint32_t) count, expires_ms);
    }
    shm_table_unlock(sync->lent);
    return has_room;
}

/* A lease is not dropped: it expires. */
static void conn_item_drop(void *owner, struct str name)
{
    struct conn_sync *sync = owner;
    struct shm_key key;
    uint64_t node;

    if (name_read(name, &key, &node) && node != own_node(sync)) {
        lent_lock(sync);
        struct lent *other = lent_find(sync, &key, LENT_OTHER, node);
        if (other != NULL) {
            other_drop(sync, other);
        }
        shm_table_unlock(sync->lent);
    }
}

/* Lists this node's counts, so that a store that has lost them gets them again. */
static bool conn_item_list(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names)
{
    struct conn_sync *sync = owner;

    lent_lock(sync);
    uint32_t count = shm_table_count(sync->lent);
    for (unsigned i = 0; i < LOCK_MOST && *cursor < count; i++) {
        const struct lent *lent = shm_table_at(sync->lent, (*cursor)++);
        if (lent->record.kind == SHM_KEYED && lent->kind == LENT_OWN && lent->count != 0) {
            *vec_add(names, arena, struct str) = name_text(arena, &lent->name, own_node(sync));
        }
    }
    shm_table_unlock(sync->lent);
    return *cursor < count;
}

/* Updates a record of another node: it expires, and counts only as long as the node is alive.
   Called with the lock held. */
static void look_at_other(struct conn_sync *sync, struct lent *lent)
{
    if (lent->kind == LENT_NODE) {
        lease_holds(sync, lent);
    } else if (lent->kind == LENT_OTHER && lent->time_ms <= clock_now.now_ms) {
        other_drop(sync, lent);
    } else if (lent->kind == LENT_OTHER) {
        bool is_counted = lease_holds(sync, lent_find(sync, &no_key, LENT_NODE, lent->node));
        struct lent *sum = is_counted == (bool) lent->is_counted
                               ? NULL
                               : lent_make(sync, &lent->name, LENT_SUM, 0);
        if (sum != NULL) {
            other_count(sum, lent, is_counted, lent->count);
        }
    }
}

/* Checks one record. Gives the name of an item to send, or an empty string. Called with the lock
 * held. */
static struct str look_at(struct conn_sync *sync, struct lent *lent, struct arena *arena)
{
    if (lent->record.kind != SHM_KEYED) {
        return STR_NONE;
    }
    if (lent->kind != LENT_OWN) {
        look_at_other(sync, lent);
        return STR_NONE;
    }
    uint32_t count = count_now(sync->zone->table, &lent->local);
    if (count == lent->count && (count == 0 || clock_now.now_ms - lent->time_ms < COUNT_RENEW_MS)) {
        if (count == 0) {
            shm_table_drop(sync->lent, lent); /* refused, or ended before it was sent */
        }
        return STR_NONE;
    }
    return name_text(arena, &lent->name, own_node(sync));
}

/* Sends the lease before the counts that others get with it. */
static void lease_note(struct conn_sync *sync, struct store_table *table)
{
    char name[NAME_LENGTH + 1];
    struct lent_head *head = lent_head_of(sync);

    if (clock_now.now_ms - head->lease_given_ms >= LEASE_RENEW_MS) {
        head->lease_given_ms = clock_now.now_ms;
        snprintf(name, sizeof(name), "%032x:%016llx", 0, (unsigned long long) head->node);
        store_table_note(table, str_of(name));
    }
}

/* Notes the counts that have changed since they were sent, or need to be renewed; drops those of
 * nodes that are gone. */
static void conn_exchanged(void *owner, struct store_table *table, bool is_read)
{
    struct conn_sync *sync = owner;
    bool has_own = false;

    for (uint32_t first = 0; first < shm_table_count(sync->lent); first += LOCK_MOST) {
        struct str names[LOCK_MOST];
        struct arena arena;

        arena_init(&arena);
        lent_lock(sync);
        uint32_t count = shm_table_count(sync->lent), end = first + LOCK_MOST;
        for (uint32_t i = first; i < end; i++) {
            struct lent *lent = i < count ? shm_table_at(sync->lent, i) : NULL;
            has_own |= lent != NULL && lent->record.kind == SHM_KEYED && lent->kind == LENT_OWN;
            names[i - first] = lent != NULL ? look_at(sync, lent, &arena) : STR_NONE;
        }
        shm_table_unlock(sync->lent);
        if (has_own) {
            lease_note(sync, table);
        }
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
