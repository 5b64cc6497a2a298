/* GeoIP databases of the legacy format (".dat"): a trie of address bits, and the values of its
 * leaves. */
#ifndef SHARED_GEO_LEGACY_H
#define SHARED_GEO_LEGACY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "net/addr/addr.h"

/* What a database has about an address. */
enum geo_legacy_kind {
    GEO_LEGACY_OTHER,   /* not supported */
    GEO_LEGACY_COUNTRY, /* the number of a country */
    GEO_LEGACY_REGION,  /* a country; for the US and Canada also a region */
    GEO_LEGACY_CITY,    /* struct geo_city */
    GEO_LEGACY_TEXT,    /* a name: organisation, provider, domain, AS number */
};

/* An open database. Its bytes are not trusted: no access is ever outside of them. */
struct geo_legacy {
    struct str bytes;
    enum geo_legacy_kind kind;
    unsigned type;        /* from the file, 1 … 106 */
    uint32_t leaves;      /* values from this one on are leaves, lower ones are nodes */
    unsigned record_size; /* of one branch: 3 or 4 bytes */
    bool is_v6;           /* a trie of 128 bits, with IPv4 addresses as mapped ones */
    bool has_metro;       /* cities of the US have an area code and a metro code */
};

/* A location. Strings are slices of the database, in ISO 8859-1, and empty where the location has
   none. */
struct geo_city {
    unsigned country; /* number */
    struct str region;
    struct str city;
    struct str postal_code;
    int32_t latitude;  /* 1/10000 degrees */
    int32_t longitude; /* 1/10000 degrees */
    unsigned metro;
    unsigned area;
};

/* A region: its country by number, or by the two-letter code in `code`. */
struct geo_region {
    unsigned country; /* number; 0 for the two countries that have regions: see is_us, is_canada */
    bool is_us;
    bool is_canada;
    char region[3]; /* two letters, or empty */
};

/* Detects the kind of a database. False: not a database, or truncated. */
bool geo_legacy_open(struct str bytes, struct geo_legacy *out);

/*
 * The leaf of an address, as a number above db->leaves. False if the database has nothing about it,
 * or is malformed. Anything but an internet address, and an IPv6 address in an IPv4 database, is
 * looked up as the last address; in an IPv6 database as "::".
 */
bool geo_legacy_find(const struct geo_legacy *db, const struct addr *addr, uint32_t *leaf);

/* The value of a leaf, for a database of that kind. False: it has none, or its record is
   truncated. */
bool geo_legacy_city(const struct geo_legacy *db, uint32_t leaf, struct geo_city *out);
bool geo_legacy_text(const struct geo_legacy *db, uint32_t leaf, struct str *out);
bool geo_legacy_region(const struct geo_legacy *db, uint32_t leaf, struct geo_region *out);

#define GEO_US_ID 225 /* number of the only country with metro codes */

#endif
