/* What was said of groups while the service runs: in a zone that all workers, and the next
 * generation, see. */
#ifndef HTTP_MODULES_BACKENDS_DYUPS_STORE_H
#define HTTP_MODULES_BACKENDS_DYUPS_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/shm.h"

/* What holds for a name: a group, or that there is none any more. */
struct dyups_entry {
    struct str name;
    struct str text; /* the inside of its block */
    bool is_gone;    /* it was deleted, whatever the configuration says */
};

/* A zone that is fresh gets its head. False: there is no room. */
bool store_prepare(struct zone *zone);

/* Raised with each change. */
uint64_t store_version(const struct zone *zone);

/* What changed after this version; appends struct dyups_entry to the list, in the arena. Gives the
 * version that it is. */
uint64_t store_since(struct zone *zone, uint64_t version, struct arena *arena, struct vec *out);

/* What holds for the name, in the arena. False: nothing was said of it. */
bool store_find(struct zone *zone, struct str name, struct arena *arena, struct dyups_entry *out);

/* From now on this holds for the name, in the place of what did. False: the zone is full, nothing
 * has changed. */
bool store_put(struct zone *zone, const struct dyups_entry *entry);

#endif
