/* Hash maps from strings to pointers: open addressing with linear probing. */
#include "base/map.h"

enum { FIRST_CAPACITY = 8 };

static bool keys_are_equal(struct str a, struct str b, bool is_nocase)
{
    return is_nocase ? str_equal_nocase(a, b) : str_equal(a, b);
}

/* The slot of the key, or the free slot for it. capacity is not 0 and at least one slot is free. */
static struct map_slot *find_slot(struct map_slot *slots, size_t capacity, struct str key,
                                  uint32_t hash, bool is_nocase)
{
    for (size_t i = hash & (capacity - 1);; i = (i + 1) & (capacity - 1)) {
        struct map_slot *slot = &slots[i];
        if (slot->key.data == NULL) {
            return slot;
        }
        if (slot->hash == hash && keys_are_equal(slot->key, key, is_nocase)) {
            return slot;
        }
    }
}

void *map_get_hashed(const struct map *map, struct str key, uint32_t hash, bool is_nocase)
{
    if (map->count == 0) {
        return NULL;
    }
    return find_slot(map->slots, map->capacity, key, hash, is_nocase)->value;
}

void *map_get(const struct map *map, struct str key)
{
    return map_get_hashed(map, key, str_hash(key), false);
}

void *map_get_nocase(const struct map *map, struct str key)
{
    return map_get_hashed(map, key, str_hash_nocase(key), true);
}

/* Doubles the table; the old one stays in the arena. All keys differ, so no keys are compared. */
static void map_grow(struct map *map, struct arena *arena)
{
    size_t capacity = map->capacity == 0 ? FIRST_CAPACITY : map->capacity * 2;
    struct map_slot *slots = arena_array(arena, capacity, sizeof(*slots));

    for (size_t i = 0; i < map->capacity; i++) {
        const struct map_slot *old = &map->slots[i];
        if (old->key.data == NULL) {
            continue;
        }
        size_t at = old->hash & (capacity - 1);
        while (slots[at].key.data != NULL) {
            at = (at + 1) & (capacity - 1);
        }
        slots[at] = *old;
    }
    map->slots = slots;
    map->capacity = capacity;
}

static void *entry_put(struct map *map, struct arena *arena, struct str key, void *value,
                       bool is_nocase)
{
    uint32_t hash = is_nocase ? str_hash_nocase(key) : str_hash(key);

    if (key.data == NULL) {
        key.data = ""; /* NULL marks a free slot */
    }
    if (map->count + 1 > map->capacity / 4 * 3) {
        map_grow(map, arena);
    }
    struct map_slot *slot = find_slot(map->slots, map->capacity, key, hash, is_nocase);
    void *former = slot->value;
    if (slot->key.data == NULL) {
        *slot = (struct map_slot){key, value, hash};
        map->count++;
    } else {
        slot->value = value;
    }
    return former;
}

void *map_put(struct map *map, struct arena *arena, struct str key, void *value)
{
    return entry_put(map, arena, key, value, false);
}

void *map_put_nocase(struct map *map, struct arena *arena, struct str key, void *value)
{
    return entry_put(map, arena, key, value, true);
}
