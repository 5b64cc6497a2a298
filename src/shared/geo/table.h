/* A map from addresses to numbers of values: spans of addresses, built once, searched for each
   request. */
#ifndef SHARED_GEO_TABLE_H
#define SHARED_GEO_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "net/addr/addr.h"

/* An IPv6 address as a number; for IPv4 `high` is 0, and `low` is below 2^32. */
struct geo_address {
    uint64_t high;
    uint64_t low;
};

/* All addresses from `first` up to the next span's first have this value. */
struct geo_span {
    struct geo_address first;
    uint32_t value; /* its number */
};

#define GEO_FAN_OUT 16 /* keys of a node: with 4 bytes each they fill a cache line */
#define GEO_LEVELS_MAX 8

/*
 * The spans of one family as a tree without pointers: level 0 has the first address of every span,
 * each higher level has the first key of every node below. A search reads one node of each level.
 */
struct geo_tree {
    const void *levels[GEO_LEVELS_MAX]; /* uint32_t for IPv4, struct geo_address for IPv6 */
    size_t counts[GEO_LEVELS_MAX];      /* keys of each level */
    unsigned depth;                     /* levels in use; 0 = there are no spans */
    const uint32_t *values;             /* by span */
};

/*
 * Builds a tree from ascending spans, the first of which begins at address 0. Neighbours with the
 * same value become one span. Changes the array; the tree is in the arena.
 */
void geo_tree_make(struct geo_tree *tree, struct arena *arena, struct geo_span *spans, size_t count,
                   bool is_v6);

/* The number of the value; 0 when there are no spans. */
uint32_t geo_tree_find_v4(const struct geo_tree *tree, uint32_t address);
uint32_t geo_tree_find_v6(const struct geo_tree *tree, struct geo_address address);

/* Makes an address from bytes in network order: IPv4 if `size` is 4, else IPv6. */
struct geo_address geo_address_of(const unsigned char *bytes, size_t size);

/* < 0, 0, > 0 */
static inline int geo_address_compare(struct geo_address a, struct geo_address b)
{
    if (a.high != b.high) {
        return a.high < b.high ? -1 : 1;
    }
    return a.low < b.low ? -1 : a.low > b.low;
}

#endif
