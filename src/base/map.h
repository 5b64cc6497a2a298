/* Hash maps from strings to pointers. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

struct map_slot {
    struct str
        key; /* not copied: owned by the caller, lives as long as the map; NULL data = free slot */
    void *value;
    uint32_t hash;
};

/*
 * Open addressing, power of two, at most 3/4 full. Memory comes from the arena of each put. A
 * lookup costs one hash and usually one comparison. Keys are compared exactly or, in the _nocase
 * calls, without ASCII case; do not mix the two on one map. Zero-initialised is empty.
 */
struct map {
    struct map_slot *slots;
    size_t count;
    size_t capacity; /* 0 or a power of two */
};

void *map_get(const struct map *map, struct str key);
void *map_get_nocase(const struct map *map, struct str key);

/* With the hash given (str_hash or str_hash_nocase of the key). */
void *map_get_hashed(const struct map *map, struct str key, uint32_t hash, bool is_nocase);

/* Adds or replaces; gives the old value or NULL. value must not be NULL. */
void *map_put(struct map *map, struct arena *arena, struct str key, void *value);
void *map_put_nocase(struct map *map, struct arena *arena, struct str key, void *value);

/* Iterates over the used slots of a map. */
#define map_each(slot, map)                                                                        \
    for (struct map_slot *slot = (map)->slots;                                                     \
         slot != NULL && slot < (map)->slots + (map)->capacity; slot++)                            \
        if (slot->key.data != NULL)

#endif
