/* GeoIP databases of the legacy format (".dat"): a trie of address bits, and what its leaves stand
 * for. */
#ifndef SHARED_GEO_LEGACY_H
#define SHARED_GEO_LEGACY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "net/addr/addr.h"

/* What a database tells of an address. */
enum geo_legacy_kind {
    GEO_LEGACY_OTHER,   /* nothing that we can use */
    GEO_LEGACY_COUNTRY, /* a number of a country */
    GEO_LEGACY_REGION,  /* a country, and a region where it is the US or Canada */
    GEO_LEGACY_CITY,    /* struct geo_city */
    GEO_LEGACY_TEXT,    /* a name: organisation, provider, domain, number of a network */
};

/* A database that was read. No byte of it is believed: whatever it says, nothing outside is
 * touched. */
struct geo_legacy {
    struct str bytes;
    enum geo_legacy_kind kind;
    unsigned type;        /* as the file tells it, 1 … 106 */
    uint32_t leaves;      /* values from here on are leaves, those below are nodes */
    unsigned record_size; /* of one branch: 3 or 4 bytes */
    bool is_v6;           /* tries of 128 bits, where v4 addresses are mapped ones */
    bool has_metro;       /* cities of the US have codes of an area and of a market */
};

/* A place. All in the database's bytes; texts are ISO 8859-1, and empty where the place has none.
 */
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

/* A region: its country by number, or by the code of two letters that stands in `code` first. */
struct geo_region {
    unsigned country; /* number; 0 where the country is one of two that have regions: see is_us,
                         is_canada */
    bool is_us;
    bool is_canada;
    char region[3]; /* two letters, or empty */
};

/* Finds out what kind of database these bytes are. False: they are none, or cut off. */
bool geo_legacy_open(struct str bytes, struct geo_legacy *out);

/*
 * The leaf of an address, as its number above db->leaves. False where the database says nothing of
 * it, or where it is broken. An address that is none of the internet, or one of IPv6 in a database
 * of IPv4, is looked up as the last one; in a database of IPv6 as "::".
 */
bool geo_legacy_find(const struct geo_legacy *db, const struct addr *addr, uint32_t *leaf);

/* What a leaf of a database of that kind stands for. False: nothing, or its record is cut off. */
bool geo_legacy_city(const struct geo_legacy *db, uint32_t leaf, struct geo_city *out);
bool geo_legacy_text(const struct geo_legacy *db, uint32_t leaf, struct str *out);
bool geo_legacy_region(const struct geo_legacy *db, uint32_t leaf, struct geo_region *out);

#define GEO_US_ID 225 /* number of the only country with codes of metros */

#endif
