/* Names of items that the store does not have yet. */
#include "store/owed.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/log.h"

#define BYTES_PER_HEAD 512 /* bytes of the zone for each head of the hash */

struct owed_item {
    struct owed_item *next; /* with the same hash head */
    struct owed_item *newer, *older;
    uint64_t number;        /* of its last note */
    uint64_t busy_until_ms; /* a worker is sending it until then; 0: none is */
    uint32_t size;
    char name[];
};

struct owed *owed_of(struct zone *zone)
{
    struct owed *owed = zone->root;
    size_t heads = 1;

    if (owed != NULL) {
        return owed;
    }
    owed = slab_alloc(zone->slab, sizeof(*owed));
    while (heads * 2 * BYTES_PER_HEAD <= zone->size) {
        heads *= 2;
    }
    if (owed == NULL) {
        return NULL;
    }
    owed->heads = slab_alloc(zone->slab, heads * sizeof(struct owed_item *));
    if (owed->heads == NULL) {
        return NULL;
    }
    owed->slab = zone->slab;
    owed->heads_mask = (uint32_t) heads - 1;
    random_bytes(owed->secret, sizeof(owed->secret));
    random_bytes(&owed->node, sizeof(owed->node));
    shm_lock_init(&owed->lock);
    zone->root = owed;
    return owed;
}

static bool owed_is_own(void *arg, const void *piece)
{
    const struct owed *owed = arg;

    return piece == owed || (const void *) owed->heads == piece;
}

/* If a process died while it held the lock, the lists may be inconsistent: the names are dropped,
 * and everything that the store lacks is sent. */
static void owed_lock(struct owed *owed)
{
    if (!shm_lock_take(&owed->lock)) {
        return;
    }
    memset(owed->heads, 0, (owed->heads_mask + 1) * sizeof(struct owed_item *));
    owed->oldest = owed->newest = NULL;
    owed->is_lossy = true;
    *owed->cursor.text = '\0';
    atomic_store(&owed->count, 0);
    slab_keep(owed->slab, owed_is_own, owed);
    log_alert(log_main, 0,
              "a process died while it changed a zone that nodes share; the zone was repaired");
}

/* ---- with the lock held ---- */

static struct owed_item **owed_link_of(struct owed *owed, struct str name)
{
    struct owed_item **at = &owed->heads[siphash_1_3(name, owed->secret) & owed->heads_mask];

    while (*at != NULL && !str_equal((struct str){(*at)->name, (*at)->size}, name)) {
        at = &(*at)->next;
    }
    return at;
}

static void owed_drop(struct owed *owed, struct owed_item **link)
{
    struct owed_item *item = *link;

    *link = item->next;
    *(item->older == NULL ? &owed->oldest : &item->older->newer) = item->newer;
    *(item->newer == NULL ? &owed->newest : &item->newer->older) = item->older;
    atomic_fetch_sub_explicit(&owed->count, 1, memory_order_relaxed);
    slab_free(owed->slab, item);
}

static struct owed_item *owed_add(struct owed *owed, struct owed_item **link, struct str name)
{
    struct owed_item *item = slab_alloc(owed->slab, sizeof(*item) + name.len);

    if (item == NULL) {
        return NULL;
    }
    item->size = (uint32_t) name.len;
    memcpy(item->name, name.data, name.len);
    item->older = owed->newest;
    *(owed->newest == NULL ? &owed->oldest : &owed->newest->newer) = item;
    owed->newest = item;
    *link = item;
    atomic_fetch_add_explicit(&owed->count, 1, memory_order_relaxed);
    return item;
}

/* ---- notes ---- */

void owed_note(struct owed *owed, struct str name)
{
    owed_lock(owed);
    struct owed_item **link = owed_link_of(owed, name);
    struct owed_item *item = *link != NULL ? *link : owed_add(owed, link, name);

    if (item != NULL) {
        item->number = ++owed->number;
    } else {
        owed->is_lossy = true;
        atomic_fetch_add_explicit(&owed->counts[STORE_TABLE_FORGOTTEN], 1, memory_order_relaxed);
    }
    shm_lock_release(&owed->lock);
}

void owed_note_clear(struct owed *owed)
{
    /* Only some names at a time, so that the lock is not held for long. */
    for (bool is_empty = false; !is_empty;) {
        owed_lock(owed);
        for (unsigned i = 0; i < 256 && owed->oldest != NULL; i++) {
            owed_drop(owed,
                      owed_link_of(owed, (struct str){owed->oldest->name, owed->oldest->size}));
        }
        is_empty = owed->oldest == NULL;
        owed->is_clear |= is_empty;
        shm_lock_release(&owed->lock);
    }
}

bool owed_has(struct owed *owed, struct str name)
{
    owed_lock(owed);
    bool has_it = owed->is_clear || *owed_link_of(owed, name) != NULL;
    shm_lock_release(&owed->lock);
    return has_it;
}

void owed_take(struct owed *owed, size_t most, uint64_t busy_until_ms, struct arena *arena,
               struct vec *names)
{
    unsigned seen = 0;

    owed_lock(owed);
    for (struct owed_item *item = owed->oldest; item != NULL && names->count < most && seen < 1024;
         item = item->newer, seen++) {
        if (item->busy_until_ms > clock_now.now_ms) {
            continue;
        }
        if (item->busy_until_ms != 0) {
            atomic_fetch_add(&owed->failures, 1); /* the process that was sending it has died */
        }
        item->busy_until_ms = busy_until_ms;
        struct owed_name *name = vec_add(names, arena, struct owed_name);
        name->name = arena_dup(arena, (struct str){item->name, item->size});
        name->number = item->number;
    }
    shm_lock_release(&owed->lock);
}

void owed_done(struct owed *owed, const struct vec *names)
{
    owed_lock(owed);
    vec_each(const struct owed_name, name, names) {
        struct owed_item **link = owed_link_of(owed, name->name);

        if (*link != NULL && (*link)->number == name->number) {
            owed_drop(owed, link);
        } else if (*link != NULL) {
            (*link)->busy_until_ms = 0;
        }
    }
    shm_lock_release(&owed->lock);
}

void owed_back(struct owed *owed, const struct vec *names)
{
    owed_lock(owed);
    vec_each(const struct owed_name, name, names) {
        struct owed_item *item = *owed_link_of(owed, name->name);

        if (item != NULL) {
            item->busy_until_ms = 0;
        }
    }
    shm_lock_release(&owed->lock);
}

/* ---- flags and positions ---- */

bool owed_take_sign(struct owed *owed, bool *sign)
{
    if (!*sign) {
        return false;
    }
    owed_lock(owed);
    bool was_set = *sign;
    *sign = false;
    shm_lock_release(&owed->lock);
    return was_set;
}

void owed_set_sign(struct owed *owed, bool *sign)
{
    owed_lock(owed);
    *sign = true;
    shm_lock_release(&owed->lock);
}

bool owed_is_after(const struct store_cursor *one, const struct store_cursor *other)
{
    char *one_rest, *other_rest;
    unsigned long long a = strtoull(one->text, &one_rest, 10);
    unsigned long long b = strtoull(other->text, &other_rest, 10);

    if (a != b || *one_rest != '-' || *other_rest != '-') {
        return a > b;
    }
    return strtoull(one_rest + 1, NULL, 10) > strtoull(other_rest + 1, NULL, 10);
}

bool owed_see(struct owed *owed, const struct store_cursor *cursor)
{
    owed_lock(owed);
    bool is_newest = !owed_is_after(&owed->seen, cursor);
    if (is_newest) {
        owed->seen = *cursor;
    }
    shm_lock_release(&owed->lock);
    return is_newest;
}

void owed_see_end(struct owed *owed, const struct store_cursor *cursor)
{
    owed_lock(owed);
    owed->seen = *cursor;
    shm_lock_release(&owed->lock);
}

void owed_forget_position(struct owed *owed)
{
    owed_lock(owed);
    *owed->cursor.text = '\0';
    shm_lock_release(&owed->lock);
}

void owed_position_get(struct owed *owed, struct owed_position *position)
{
    owed_lock(owed);
    memcpy(position->epoch, owed->epoch, sizeof(position->epoch));
    position->cursor = owed->cursor;
    shm_lock_release(&owed->lock);
}

void owed_position_set(struct owed *owed, const struct owed_position *position)
{
    owed_lock(owed);
    memcpy(owed->epoch, position->epoch, sizeof(position->epoch));
    owed->cursor = position->cursor;
    shm_lock_release(&owed->lock);
}
