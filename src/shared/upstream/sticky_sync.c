/* Sessions of `sticky learn` that all nodes share. docs/scaling-out.md describes the items. */
#include "shared/upstream/sticky_sync.h"

#include <string.h>

#include "base/checksum.h"
#include "base/text.h"
#include "fiber/fiber.h"
#include "store/table.h"

enum {
    INTERVAL_MS = 50,
    LIST_MOST = 64, /* sessions that are listed while the lock is held */
    ID_DIGITS = 32, /* hexadecimal digits of a name, and of a value */
};

struct sticky_sync {
    struct sticky_sync *next;
    const struct zone *zone;
    struct sessions *sessions;
    struct store_table *table;
    const struct store *store;
    /* In a worker. */
    bool has_secret;
    uint64_t secret[4];
};

/* ---- names and values: 32 hexadecimal digits ---- */

static struct str id_text(struct arena *arena, const struct session_id *id)
{
    char *text = arena_alloc(arena, ID_DIGITS);

    hex_encode(text, id->md5, sizeof(id->md5));
    return (struct str){text, ID_DIGITS};
}

static bool id_read(struct str text, struct session_id *id)
{
    return text.len == ID_DIGITS && hex_decode(text, id->md5);
}

void sticky_sync_key(struct sticky_sync *sync, struct str text, struct session_id *key)
{
    if (!sync->has_secret) {
        store_secret(sync->store, STR("sticky_sessions name"), sync->zone->name, sync->secret);
        sync->has_secret = true;
    }
    uint64_t halves[2] = {siphash_1_3(text, sync->secret), siphash_1_3(text, sync->secret + 2)};
    memcpy(key->md5, halves, sizeof(key->md5));
}

/* ---- the table ---- */

static bool session_item_get(void *owner, struct str name, struct arena *arena,
                             struct store_item *item)
{
    const struct sticky_sync *sync = owner;
    struct session_id key, peer;
    uint64_t left_ms;

    if (!id_read(name, &key) || !sessions_give(sync->sessions, &key, &peer, &left_ms)) {
        return false;
    }
    item->value = id_text(arena, &peer);
    item->ttl_ms = left_ms + left_ms / SESSIONS_GIVEN_OFTEN + 1; /* until it is sent again */
    return true;
}

/* A session that was replaced is removed from the store as well, so that the store has no more
 * sessions than fit into a zone. */
static void note_displaced(const struct sticky_sync *sync, const struct sessions_change *change)
{
    struct arena arena;

    if (change->is_displaced) {
        arena_init(&arena);
        store_table_note(sync->table, id_text(&arena, &change->displaced));
        arena_free(&arena);
    }
}

static bool session_item_put(void *owner, const struct store_item *item)
{
    const struct sticky_sync *sync = owner;
    struct session_id key, peer;

    if (id_read(item->name, &key) && id_read(item->value, &peer) && item->ttl_ms != 0) {
        struct sessions_change change = sessions_take(sync->sessions, &key, &peer, item->ttl_ms);
        note_displaced(sync, &change);
    }
    return true;
}

static void session_item_drop(void *owner, struct str name)
{
    const struct sticky_sync *sync = owner;
    struct session_id key;

    if (id_read(name, &key)) {
        sessions_drop(sync->sessions, &key);
    }
}

static bool session_item_list(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names)
{
    const struct sticky_sync *sync = owner;
    struct session_id keys[LIST_MOST];
    size_t count = 0;
    bool has_more = sessions_list(sync->sessions, cursor, keys, LIST_MOST, &count);

    for (size_t i = 0; i < count; i++) {
        *vec_add(names, arena, struct str) = id_text(arena, &keys[i]);
    }
    return has_more;
}

static uint64_t session_item_count(const void *owner)
{
    return sessions_count(((const struct sticky_sync *) owner)->sessions);
}

static const struct store_table_kind session_table = {.purpose = "sticky_sessions",
                                                      .get = session_item_get,
                                                      .put = session_item_put,
                                                      .drop = session_item_drop,
                                                      .list = session_item_list,
                                                      .count = session_item_count};

/* ---- requests ---- */

bool sticky_sync_look(struct sticky_sync *sync, const struct session_id *key,
                      struct session_id *peer)
{
    struct arena arena;

    if (fiber_self() == NULL) {
        return false;
    }
    arena_init(&arena);
    store_table_fetch(sync->table, id_text(&arena, key));
    arena_free(&arena);
    return sessions_look(sync->sessions, key, peer);
}

void sticky_sync_put(struct sticky_sync *sync, const struct session_id *key,
                     const struct session_id *peer, uint64_t timeout_ms)
{
    struct arena arena;
    struct sessions_change change = sessions_put_shared(sync->sessions, key, peer, timeout_ms);

    note_displaced(sync, &change);
    if (!change.is_due) {
        return;
    }
    arena_init(&arena);
    struct str name = id_text(&arena, key);
    store_table_note(sync->table, name);
    if (change.is_new && fiber_self() != NULL) {
        store_table_flush(sync->table, &(const struct vec){.items = &name, .count = 1});
    }
    arena_free(&arena);
}

/* ---- the configuration ---- */

struct sticky_sync *sticky_sync_new(struct conf *conf, struct conf_node *node,
                                    const struct zone *zone, struct sessions *sessions,
                                    const struct store_sync_words *words)
{
    struct sticky_sync **link =
        conf_state(conf, "synced sticky sessions", sizeof(struct sticky_sync *));

    while (*link != NULL && (*link)->zone != zone) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        return *link;
    }
    struct sticky_sync *sync = arena_new(conf->arena, struct sticky_sync);
    const struct store_table_wanted wanted = {.kind = &session_table,
                                              .owner = sync,
                                              .name = zone->name,
                                              .size = zone->size,
                                              .words = words,
                                              .interval_ms = INTERVAL_MS};
    sync->zone = zone;
    sync->sessions = sessions;
    sync->store = store_named(conf, node, words->store);
    sync->table = sync->store == NULL ? NULL : store_table_new(conf, node, &wanted);
    if (sync->table == NULL) {
        return NULL;
    }
    *link = sync;
    return sync;
}
