/* The state of services, in the zone of their block: written by worker 0, read by all workers. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "upstream/discovery/private.h"

/* ---- records ---- */

struct discovery_record *discovery_record_of(struct discovery *discovery, struct str written)
{
    struct discovery_record *record = discovery->shared->records;

    for (; record != NULL; record = record->next) {
        if (str_equal((struct str){record->name, record->name_length}, written)) {
            return record;
        }
    }
    record = slab_alloc(discovery->zone->slab, sizeof(*record) + written.len);
    if (record != NULL) {
        shm_lock_init(&record->lock);
        record->name_length = (uint32_t) written.len;
        memcpy(record->name, written.data, written.len);
        record->next = discovery->shared->records;
        discovery->shared->records = record;
    }
    return record;
}

static struct discovery_stored pack(const struct resolved_address *from)
{
    struct discovery_stored out = {.weight = from->weight};

    if (from->addr.any.sa_family == AF_INET6) {
        memcpy(out.ip, &from->addr.v6.sin6_addr, 16);
        out.port = from->addr.v6.sin6_port;
        out.is_v6 = 1;
    } else {
        memcpy(out.ip, &from->addr.v4.sin_addr, 4);
        out.port = from->addr.v4.sin_port;
    }
    return out;
}

static void unpack(const struct discovery_stored *from, struct resolved_address *out)
{
    *out = (struct resolved_address){.weight = from->weight};
    if (from->is_v6) {
        out->addr.len = sizeof(out->addr.v6);
        out->addr.v6.sin6_family = AF_INET6;
        out->addr.v6.sin6_port = from->port;
        memcpy(&out->addr.v6.sin6_addr, from->ip, 16);
    } else {
        out->addr.len = sizeof(out->addr.v4);
        out->addr.v4.sin_family = AF_INET;
        out->addr.v4.sin_port = from->port;
        memcpy(&out->addr.v4.sin_addr, from->ip, 4);
    }
}

/* ---- reading ---- */

uint64_t discovery_version(const struct discovery_service *service)
{
    return atomic_load_explicit(&service->record->version, memory_order_acquire);
}

uint64_t discovery_read(struct discovery_service *service, struct arena *arena,
                        struct resolved *out)
{
    struct discovery_record *record = service->record;

    *out = (struct resolved){.count = 0};
    /* Lists are complete before they are linked here, so a dead owner leaves no damage. */
    shm_lock_take(&record->lock);
    uint64_t version = record->version;
    const struct discovery_stored_list *list = record->list;
    if (list != NULL) {
        out->items = arena_array(arena, list->count, sizeof(*out->items));
        for (; out->count < list->count; out->count++) {
            unpack(&list->items[out->count], &out->items[out->count]);
        }
    }
    shm_lock_release(&record->lock);
    return version;
}

/* ---- writing ---- */

static int compare(const void *a, const void *b)
{
    const struct discovery_stored *one = a, *other = b;

    if (one->is_v6 != other->is_v6) {
        return one->is_v6 - other->is_v6;
    }
    int order = memcmp(one->ip, other->ip, sizeof(one->ip));
    return order != 0 ? order : memcmp(&one->port, &other->port, sizeof(one->port));
}

/* Makes a sorted list with each address once. */
static struct discovery_stored_list *make_list(struct arena *arena, const struct vec *endpoints)
{
    struct discovery_stored_list *list =
        arena_zalloc(arena, sizeof(*list) + endpoints->count * sizeof(struct discovery_stored));
    uint32_t count = 0;

    vec_each(struct resolved_address, endpoint, endpoints) {
        list->items[list->count++] = pack(endpoint);
    }
    qsort(list->items, list->count, sizeof(*list->items), compare);
    for (uint32_t i = 0; i < list->count; i++) {
        if (count == 0 || compare(&list->items[count - 1], &list->items[i]) != 0) {
            list->items[count++] = list->items[i];
        }
    }
    list->count = count;
    return list;
}

static bool lists_equal(const struct discovery_stored_list *a,
                        const struct discovery_stored_list *b)
{
    uint32_t count = a == NULL ? 0 : a->count;

    if (count != b->count) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (compare(&a->items[i], &b->items[i]) != 0 || a->items[i].weight != b->items[i].weight) {
            return false;
        }
    }
    return true;
}

/* Replaces the list, with the lock held, so that a reader finds the old list or the new one. */
static void replace(const struct discovery *discovery, struct discovery_record *record,
                    struct discovery_stored_list *list)
{
    struct discovery_stored_list *former = record->list;

    record->list = list;
    atomic_store_explicit(&record->version, record->version + 1, memory_order_release);
    if (former != NULL) {
        slab_free(discovery->zone->slab, former);
    }
}

enum discovery_published discovery_publish(struct discovery_service *service, struct vec *endpoints,
                                           uint32_t generation)
{
    struct discovery *discovery = service->discovery;
    struct discovery_record *record = service->record;
    enum discovery_published result = DISCOVERY_SAME;
    struct discovery_stored_list *stored = NULL;
    struct arena arena;

    arena_init(&arena);
    const struct discovery_stored_list *list = make_list(&arena, endpoints);
    size_t size = sizeof(*list) + list->count * sizeof(struct discovery_stored);
    if (list->count != 0) {
        stored = slab_alloc(discovery->zone->slab, size);
        if (stored == NULL) {
            arena_free(&arena);
            return DISCOVERY_NO_ROOM;
        }
        memcpy(stored, list, size);
    }
    shm_lock_take(&record->lock);
    if (generation >= record->generation &&
        (record->version == 0 || !lists_equal(record->list, list))) {
        record->generation = generation;
        replace(discovery, record, stored);
        stored = NULL;
        result = DISCOVERY_CHANGED;
    }
    shm_lock_release(&record->lock);
    if (stored != NULL) {
        slab_free(discovery->zone->slab, stored);
    }
    arena_free(&arena);
    return result;
}

static bool is_used(const struct discovery *discovery, const struct discovery_record *record)
{
    for (const struct discovery_service *service = discovery->services; service != NULL;
         service = service->next) {
        if (service->record == record) {
            return true;
        }
    }
    return false;
}

void discovery_forget_unused(struct discovery *discovery, uint32_t generation)
{
    for (struct discovery_record *record = discovery->shared->records; record != NULL;
         record = record->next) {
        if (is_used(discovery, record)) {
            continue;
        }
        shm_lock_take(&record->lock);
        struct discovery_stored_list *list = record->list;
        if (generation >= record->generation) {
            record->generation = generation;
            record->list = NULL;
            atomic_store_explicit(&record->version, 0, memory_order_release);
        } else {
            list = NULL;
        }
        shm_lock_release(&record->lock);
        if (list != NULL) {
            slab_free(discovery->zone->slab, list);
        }
    }
}

void discovery_ring(const struct discovery *discovery)
{
    uint64_t one = 1;

    if (discovery->bell != -1 && write(discovery->bell, &one, sizeof(one)) < 0) {
        log_alert(log_main, errno, "write() to an eventfd failed");
    }
}
