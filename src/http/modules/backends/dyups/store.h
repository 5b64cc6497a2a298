/* Changes of groups in shared memory, for all workers and later generations. */
#ifndef HTTP_MODULES_BACKENDS_DYUPS_STORE_H
#define HTTP_MODULES_BACKENDS_DYUPS_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/shm.h"

/* The last change of a name: a group, or a deletion. */
struct dyups_entry {
    struct str name;
    struct str text; /* the contents of its block */
    bool is_gone;    /* it was deleted, even if the configuration has it */
};

/* Initializes a new zone. False: it is too small. */
bool store_prepare(struct zone *zone);

/* Incremented by each change. */
uint64_t store_version(const struct zone *zone);

/* Appends the changes after this version (struct dyups_entry) to the list, in the arena. Returns
 * the current version. */
uint64_t store_since(struct zone *zone, uint64_t version, struct arena *arena, struct vec *out);

/* Finds the last change of the name, in the arena. False: it was never changed. */
bool store_find(struct zone *zone, struct str name, struct arena *arena, struct dyups_entry *out);

/* Stores the change of a name in place of the previous one. False: the zone is full, and
 * unchanged. */
bool store_put(struct zone *zone, const struct dyups_entry *entry);

#endif
