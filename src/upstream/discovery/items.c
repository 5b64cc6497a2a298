/* Addresses by key of an engine, updated by events. */
#include <stdlib.h>

#include "base/fatal.h"
#include "upstream/discovery/private.h"

static struct discovery_item **find(const struct discovery_items *items, struct str key)
{
    for (size_t i = 0; i < items->count; i++) {
        if (str_equal(items->items[i]->key, key)) {
            return &items->items[i];
        }
    }
    return NULL;
}

static void drop_at(struct discovery_items *items, struct discovery_item **at)
{
    struct discovery_item *item = *at;

    *at = items->items[--items->count];
    items->endpoints -= item->count;
    free(item);
}

void discovery_items_drop(struct discovery_items *items, struct str key)
{
    struct discovery_item **at = find(items, key);

    if (at != NULL) {
        drop_at(items, at);
    }
}

void discovery_items_clear(struct discovery_items *items)
{
    while (items->count != 0) {
        drop_at(items, &items->items[items->count - 1]);
    }
    free(items->items);
    items->items = NULL;
    items->room = 0;
}

/* One allocation: the item, its endpoints, then the bytes of the key. */
static struct discovery_item *item_new(struct str key, const struct vec *endpoints)
{
    size_t fixed =
        sizeof(struct discovery_item) + endpoints->count * sizeof(struct resolved_address);
    struct discovery_item *item = malloc(fixed + key.len);

    if (item == NULL) {
        fatal_no_memory(fixed + key.len);
    }
    item->count = 0;
    vec_each(struct resolved_address, endpoint, endpoints) {
        item->endpoints[item->count++] = *endpoint;
    }
    item->key = (struct str){(char *) item + fixed, key.len};
    memcpy((char *) item + fixed, key.data, key.len);
    return item;
}

static void make_room(struct discovery_items *items)
{
    size_t room = items->room == 0 ? 16 : 2 * items->room;
    struct discovery_item **larger = realloc(items->items, room * sizeof(*larger));

    if (larger == NULL) {
        fatal_no_memory(room * sizeof(*larger));
    }
    items->items = larger;
    items->room = room;
}

bool discovery_items_put(struct discovery_items *items, struct str key, const struct vec *endpoints)
{
    discovery_items_drop(items, key);
    if (items->count == items->most || endpoints->count > items->most - items->endpoints) {
        return false;
    }
    if (items->count == items->room) {
        make_room(items);
    }
    items->items[items->count++] = item_new(key, endpoints);
    items->endpoints += endpoints->count;
    return true;
}

struct vec discovery_items_list(const struct discovery_items *items, struct arena *arena)
{
    struct vec list = {0};

    for (size_t i = 0; i < items->count; i++) {
        for (unsigned j = 0; j < items->items[i]->count; j++) {
            *vec_add(&list, arena, struct resolved_address) = items->items[i]->endpoints[j];
        }
    }
    return list;
}
