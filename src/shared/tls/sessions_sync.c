/* Sessions of TLS 1.2 that several nodes share. docs/scaling-out.md describes the items. */
#include "shared/tls/sessions_sync.h"

#include "base/text.h"
#include "store/table.h"

enum { ID_MAX = 32 }; /* bytes (RFC 5246, 7.4.1.2) */

struct sessions_sync {
    struct sessions_sync *next;
    struct zone *zone;
    struct store_table *table;
    struct tls_session_sharing sharing;
};

/* ---- names of items: the identifier in hexadecimal digits ---- */

static struct str id_text(struct arena *arena, struct str id)
{
    char *text = arena_alloc(arena, 2 * id.len + 1);

    return str_from(text, hex_encode(text, id.data, id.len));
}

static bool id_read(struct str name, struct arena *arena, struct str *id)
{
    char *bytes = arena_alloc(arena, ID_MAX);

    *id = (struct str){bytes, name.len / 2};
    return name.len != 0 && name.len <= 2 * (size_t) ID_MAX && hex_decode(name, bytes);
}

/* ---- the table ---- */

static bool tls_session_item_get(void *owner, struct str name, struct arena *arena,
                                 struct store_item *item)
{
    const struct sessions_sync *sync = owner;
    struct str id;
    uint64_t left_s;

    if (!id_read(name, arena, &id) ||
        !tls_sessions_get(sync->zone, id, arena, &item->value, &left_s)) {
        return false;
    }
    item->ttl_ms = left_s * 1000;
    return true;
}

static bool tls_session_item_put(void *owner, const struct store_item *item)
{
    const struct sessions_sync *sync = owner;
    struct tls_session_given given = {.session = item->value,
                                      .left_s = (item->ttl_ms + 999) / 1000};
    struct arena arena;

    arena_init(&arena);
    bool has_room = !id_read(item->name, &arena, &given.id) ||
                    tls_sessions_put(sync->zone, &given, &sync->sharing);
    arena_free(&arena);
    return has_room;
}

static void tls_session_item_drop(void *owner, struct str name)
{
    const struct sessions_sync *sync = owner;
    struct arena arena;
    struct str id;

    arena_init(&arena);
    if (id_read(name, &arena, &id)) {
        tls_sessions_drop(sync->zone, id);
    }
    arena_free(&arena);
}

static bool tls_session_item_list(void *owner, uint32_t *cursor, struct arena *arena,
                                  struct vec *names)
{
    const struct sessions_sync *sync = owner;
    struct vec ids = {0};
    bool has_more = tls_sessions_list(sync->zone, cursor, arena, &ids);

    vec_each(const struct str, id, &ids) {
        *vec_add(names, arena, struct str) = id_text(arena, *id);
    }
    return has_more;
}

static const struct store_table_kind tls_session_table = {.purpose = "ssl_sessions",
                                                          .get = tls_session_item_get,
                                                          .put = tls_session_item_put,
                                                          .drop = tls_session_item_drop,
                                                          .list = tls_session_item_list,
                                                          .is_secret = true};

/* Called in a handshake, which must not wait: other nodes get the session with the next
   exchange. */
static void session_changed(void *arg, struct str id)
{
    const struct sessions_sync *sync = arg;
    char name[2 * ID_MAX];

    if (id.len <= ID_MAX) {
        store_table_note(sync->table, str_from(name, hex_encode(name, id.data, id.len)));
    }
}

/* ---- the configuration ---- */

const struct tls_session_sharing *tls_sessions_sync(struct conf *conf, struct conf_node *node,
                                                    struct zone *zone,
                                                    const struct store_sync_words *words)
{
    struct sessions_sync **link =
        conf_state(conf, "synced TLS sessions", sizeof(struct sessions_sync *));

    while (*link != NULL && (*link)->zone != zone) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        return &(*link)->sharing;
    }
    struct sessions_sync *sync = arena_new(conf->arena, struct sessions_sync);
    const struct store_table_wanted wanted = {.kind = &tls_session_table,
                                              .owner = sync,
                                              .name = zone->name,
                                              .size = zone->size,
                                              .words = words};
    sync->zone = zone;
    sync->sharing = (struct tls_session_sharing){.changed = session_changed, .arg = sync};
    if (!tls_sessions_prepare(zone)) {
        conf_error(conf, node, "session cache \"%.*s\" is too small", STR_ARG(zone->name));
        return NULL;
    }
    sync->table = store_table_new(conf, node, &wanted);
    if (sync->table == NULL) {
        return NULL;
    }
    *link = sync;
    return &sync->sharing;
}
