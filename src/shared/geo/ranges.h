/* The lines of a geo block with `ranges`: ranges of IPv4 addresses, sorted while they are read. */
#ifndef SHARED_GEO_RANGES_H
#define SHARED_GEO_RANGES_H

#include "shared/geo/table.h"

/* Both ends belong to the range. */
struct geo_range {
    uint32_t first;
    uint32_t last;
    uint32_t value; /* its number */
};

/* All zero is empty. Ranges never overlap: one that is inside another splits that in two. */
struct geo_ranges {
    struct arena *arena; /* temporary memory for reading */
    struct vec chunks;   /* struct chunk *: in order, none empty */
    size_t count;        /* number of ranges */
};

enum geo_put {
    GEO_PUT,
    GEO_REPLACED, /* the same range existed; *other is its old value */
    GEO_OVERLAPS, /* nothing was done: *other overlaps it partly */
};

/* Adds a range. Any number of them in any order; each call is fast. */
enum geo_put geo_ranges_put(struct geo_ranges *ranges, struct geo_range range,
                            struct geo_range *other);

/*
 * Deletes a range; false when there is no such range. As with nginx, which stores long ranges as
 * pieces of 65536 addresses, such a piece of a longer range can be deleted.
 */
bool geo_ranges_delete(struct geo_ranges *ranges, uint32_t first, uint32_t last);

/* All ranges as spans; the addresses between them have the value `between`. */
struct geo_span *geo_ranges_spans(const struct geo_ranges *ranges, uint32_t between, size_t *count);

#endif
