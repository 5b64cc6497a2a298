/* Databases of MaxMind's format (".mmdb", version 2): a tree of address bits, and data of several
 * types. */
#ifndef SHARED_GEO_MMDB_H
#define SHARED_GEO_MMDB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "net/addr/addr.h"

/* An open database. Its bytes are not trusted: no access is ever outside of them, and every search
 * ends. */
struct geo_mmdb {
    struct str tree;      /* nodes of two records each */
    struct str data;      /* values, to which records point, and pointers among values */
    uint32_t node_count;  /* a record with this value means no data, lower ones are nodes */
    unsigned record_size; /* bits of a record: 24, 28, 32 */
    bool is_v6;           /* a tree of 128 bits, with IPv4 at ::/96 */
    uint32_t v4_node;     /* node where IPv4 addresses begin; or a record for all of them */
    uint64_t build_epoch; /* when it was built, in seconds */
};

enum geo_value_kind {
    GEO_VALUE_POINTER = 1,
    GEO_VALUE_STRING = 2,
    GEO_VALUE_DOUBLE = 3,
    GEO_VALUE_BYTES = 4,
    GEO_VALUE_UINT16 = 5,
    GEO_VALUE_UINT32 = 6,
    GEO_VALUE_MAP = 7,
    GEO_VALUE_INT32 = 8,
    GEO_VALUE_UINT64 = 9,
    GEO_VALUE_UINT128 = 10,
    GEO_VALUE_ARRAY = 11,
    GEO_VALUE_BOOLEAN = 14,
    GEO_VALUE_FLOAT = 15,
};

/* A value, and its position. */
struct geo_value {
    enum geo_value_kind kind;
    struct str bytes; /* of strings and bytes; a slice of the database */
    uint64_t number;  /* of integers and booleans; int32 sign-extended to 64 bits; the lower half of
                         uint128 */
    uint64_t number_high; /* the upper half of uint128 */
    double real;          /* of doubles and floats */
    uint32_t count;       /* entries of a map or an array */
    size_t next; /* position after its head: for a map or an array, that of the first entry */
};

/* Finds the parts of a database in these bytes. Gives NULL, or the reason of a failure in
   libmaxminddb's words. */
const char *geo_mmdb_open(struct str bytes, struct geo_mmdb *out);

/* The position of the data about an address. False: there is none. IPv4-mapped IPv6 addresses are
 * looked up as IPv4. */
bool geo_mmdb_find(const struct geo_mmdb *db, const struct addr *addr, size_t *offset);

/*
 * The value at a position, or the one below it that a path of map keys and array indexes (from 0,
 * or -1 from the end) selects. False: there is none, or the data is malformed.
 */
bool geo_mmdb_value(const struct geo_mmdb *db, size_t position, const struct str *path,
                    size_t count, struct geo_value *out);

#endif
