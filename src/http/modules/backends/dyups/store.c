/* Changes of groups in shared memory. */
#include "http/modules/backends/dyups/store.h"

#include <stdatomic.h>
#include <string.h>

/* The change of one name, in the zone. */
struct stored {
    struct stored *next;
    uint64_t version; /* of the change */
    uint32_t name_length, text_length;
    bool is_gone;
    char bytes[]; /* the name, then the text */
};

struct store {
    struct shm_lock lock;
    _Atomic uint64_t version;
    struct stored *first; /* one per name */
};

bool store_prepare(struct zone *zone)
{
    if (zone->root == NULL) {
        struct store *store = slab_alloc(zone->slab, sizeof(*store));

        if (store == NULL) {
            return false;
        }
        shm_lock_init(&store->lock);
        zone->root = store;
    }
    return true;
}

uint64_t store_version(const struct zone *zone)
{
    const struct store *store = zone->root;

    return atomic_load_explicit(&store->version, memory_order_acquire);
}

static struct str name_of(const struct stored *stored)
{
    return (struct str){stored->bytes, stored->name_length};
}

static struct dyups_entry entry_of(const struct stored *stored, struct arena *arena)
{
    struct str text = {stored->bytes + stored->name_length, stored->text_length};

    return (struct dyups_entry){.name = arena_dup(arena, name_of(stored)),
                                .text = arena_dup(arena, text),
                                .is_gone = stored->is_gone};
}

bool store_find(struct zone *zone, struct str name, struct arena *arena, struct dyups_entry *out)
{
    struct store *store = zone->root;

    shm_lock_take(&store->lock);
    const struct stored *stored = store->first;
    while (stored != NULL && !str_equal_nocase(name_of(stored), name)) {
        stored = stored->next;
    }
    if (stored != NULL) {
        *out = entry_of(stored, arena);
    }
    shm_lock_release(&store->lock);
    return stored != NULL;
}

uint64_t store_since(struct zone *zone, uint64_t version, struct arena *arena, struct vec *out)
{
    struct store *store = zone->root;

    shm_lock_take(&store->lock);
    uint64_t now = store->version;
    for (const struct stored *stored = store->first; stored != NULL; stored = stored->next) {
        if (stored->version > version) {
            *vec_add(out, arena, struct dyups_entry) = entry_of(stored, arena);
        }
    }
    shm_lock_release(&store->lock);
    return now;
}

bool store_put(struct zone *zone, const struct dyups_entry *entry)
{
    struct store *store = zone->root;
    struct stored *made = slab_alloc(zone->slab, sizeof(*made) + entry->name.len + entry->text.len);

    if (made == NULL) {
        return false;
    }
    made->name_length = (uint32_t) entry->name.len;
    made->text_length = (uint32_t) entry->text.len;
    made->is_gone = entry->is_gone;
    str_put(str_put(made->bytes, entry->name), entry->text);
    shm_lock_take(&store->lock);
    struct stored **link = &store->first;
    while (*link != NULL && !str_equal_nocase(name_of(*link), entry->name)) {
        link = &(*link)->next;
    }
    struct stored *former = *link;
    made->next = former == NULL ? NULL : former->next;
    made->version = store->version + 1;
    *link = made; /* the list stays consistent even if this process dies here */
    atomic_store_explicit(&store->version, made->version, memory_order_release);
    if (former != NULL) {
        slab_free(zone->slab, former);
    }
    shm_lock_release(&store->lock);
    return true;
}
