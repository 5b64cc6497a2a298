/* The lines of a geo block with `ranges`: ranges of IPv4 addresses, kept in order while they are
 * read. */
#ifndef SHARED_GEO_RANGES_H
#define SHARED_GEO_RANGES_H

#include "shared/geo/table.h"

/* Both ends belong to it. */
struct geo_range {
    uint32_t first;
    uint32_t last;
    uint32_t value; /* number of a value */
};

/* All zero is empty. Ranges never overlap: one that lies within another cuts that in two. */
struct geo_ranges {
    struct arena *arena; /* for the time of reading */
    struct vec chunks;   /* struct chunk *: in order, none empty */
    size_t count;        /* of ranges */
};

enum geo_put {
    GEO_PUT,
    GEO_REPLACED, /* the same range was there; *other is what it was */
    GEO_OVERLAPS, /* nothing was done: *other is partly in it */
};

/* Any number of them in any order, each in little time. */
enum geo_put geo_ranges_put(struct geo_ranges *ranges, struct geo_range range,
                            struct geo_range *other);

/*
 * Takes the range out; false when no such range is there. As with nginx, where long ranges are kept
 * as pieces of 65536 addresses, such pieces can be taken out of a longer one.
 */
bool geo_ranges_delete(struct geo_ranges *ranges, uint32_t first, uint32_t last);

/* All as spans; addresses between them have this value. */
struct geo_span *geo_ranges_spans(const struct geo_ranges *ranges, uint32_t between, size_t *count);

#endif
