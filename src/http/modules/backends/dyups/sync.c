/* Shares the groups of dyups with other nodes: `dyups_interface sync`. docs/scaling-out.md
 * describes the items. */
#include "base/buf.h"
#include "fiber/fiber.h"
#include "http/modules/backends/dyups/dyups.h"
#include "http/modules/backends/dyups/store.h"
#include "store/table.h"
#include "upstream/upstream.h"

enum {
    MEMORY = 64 * 1024, /* for names that are missing in the store */
    INTERVAL_MS = 50,
};

static const char is_there = '+', is_gone = '-'; /* first byte of a value; the text follows */

/* Names are case-insensitive. */
static struct str lower_name(struct arena *arena, struct str name)
{
    char *lower = arena_alloc(arena, name.len);

    for (size_t i = 0; i < name.len; i++) {
        lower[i] = (char) ascii_lower((unsigned char) name.data[i]);
    }
    return (struct str){lower, name.len};
}

static bool dyups_item_get(void *owner, struct str name, struct arena *arena,
                           struct store_item *item)
{
    const struct dyups_settings *own = owner;
    struct dyups_entry entry;

    if (!store_find(own->zone, name, arena, &entry)) {
        return false;
    }
    item->value =
        arena_concat(arena, (struct str){entry.is_gone ? &is_gone : &is_there, 1}, entry.text);
    return true;
}

/* Does the zone have this change already, made here or received before? */
static bool is_same(const struct dyups_settings *own, const struct dyups_entry *entry)
{
    struct dyups_entry former;
    struct arena arena;

    arena_init(&arena);
    bool is_one = store_find(own->zone, entry->name, &arena, &former) &&
                  former.is_gone == entry->is_gone && str_equal(former.text, entry->text);
    arena_free(&arena);
    return is_one;
}

static bool dyups_item_put(void *owner, const struct store_item *item)
{
    struct dyups_settings *own = owner;
    struct dyups_entry entry = {.name = item->name};
    struct buf why = {0};

    if (dyups_now != own || item->value.len == 0 || item->name.len > DYUPS_NAME_MAX) {
        return true; /* the worker ends, or the item is not valid */
    }
    entry.is_gone = item->value.data[0] == is_gone;
    entry.text = entry.is_gone ? STR_NONE : str_skip(item->value, 1);
    if (is_same(own, &entry)) {
        return true;
    }
    if (!entry.is_gone && !dyups_check(entry.name, entry.text, &why)) {
        log_error(&upstream_set_of(own->outer->conf, &upstream_http)->log, 0,
                  "dyups: upstream \"%.*s\" of another node is not taken: %.*s",
                  STR_ARG(entry.name), STR_ARG(buf_str(&why)));
        buf_free(&why);
        return true;
    }
    if (!store_put(own->zone, &entry)) {
        return false;
    }
    dyups_sync();
    return true;
}

/* An item of this node is missing in the store: sends it again. */
static void dyups_item_drop(void *owner, struct str name)
{
    const struct dyups_settings *own = owner;

    store_table_note(own->table, name);
}

static bool dyups_item_list(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names)
{
    const struct dyups_settings *own = owner;
    struct vec entries = {0};

    store_since(own->zone, 0, arena, &entries);
    vec_each(const struct dyups_entry, entry, &entries) {
        *vec_add(names, arena, struct str) = lower_name(arena, entry->name);
    }
    return false;
}

static const struct store_table_kind dyups_table = {.purpose = "dyups",
                                                    .get = dyups_item_get,
                                                    .put = dyups_item_put,
                                                    .drop = dyups_item_drop,
                                                    .list = dyups_item_list};

bool dyups_table_new(struct conf *conf, struct conf_node *node, struct dyups_settings *own)
{
    const struct store_table_wanted wanted = {.kind = &dyups_table,
                                              .owner = own,
                                              .name = own->zone->name,
                                              .size = MEMORY,
                                              .words = &own->sync,
                                              .interval_ms = INTERVAL_MS};

    own->table = store_table_new(conf, node, &wanted);
    return own->table != NULL;
}

void dyups_table_note(struct str name)
{
    struct arena arena;

    if (dyups_now->table == NULL) {
        return;
    }
    arena_init(&arena);
    struct store_table *table = dyups_now->table;
    struct str lower = lower_name(&arena, name);
    store_table_note(table, lower);
    if (fiber_self() != NULL) {
        store_table_flush(table, &(const struct vec){.items = &lower, .count = 1});
    }
    arena_free(&arena);
}
