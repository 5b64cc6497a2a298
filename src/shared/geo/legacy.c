/* GeoIP databases of the legacy format: see legacy.h. */
#include "shared/geo/legacy.h"

#include <arpa/inet.h>

/*
 * The file format: nodes with two branches each, little endian; records of cities or strings; a
 * description; near the end three bytes 0xff, the type, and for some types the number of nodes.
 */
enum {
    TYPE_SEARCH = 20, /* maximum distance of the three bytes from the end */
    COUNTRY_LEAVES = 0xffff00,
    REGION_0_LEAVES = 16700000,
    REGION_1_LEAVES = 16000000,
};

struct edition {
    unsigned type;
    enum geo_legacy_kind kind;
    unsigned record_size;
    uint32_t leaves; /* 0: read from the file */
    bool is_v6;
    bool has_metro;
};

/* clang-format off */
static const struct edition editions[] = {
    {1, GEO_LEGACY_COUNTRY, 3, COUNTRY_LEAVES, false, false},
    {12, GEO_LEGACY_COUNTRY, 3, COUNTRY_LEAVES, true, false},
    {7, GEO_LEGACY_REGION, 3, REGION_0_LEAVES, false, false},
    {3, GEO_LEGACY_REGION, 3, REGION_1_LEAVES, false, false},
    {2, GEO_LEGACY_CITY, 3, 0, false, true},
    {6, GEO_LEGACY_CITY, 3, 0, false, false},
    {30, GEO_LEGACY_CITY, 3, 0, true, true},
    {31, GEO_LEGACY_CITY, 3, 0, true, false},
    {4, GEO_LEGACY_TEXT, 4, 0, false, false},
    {5, GEO_LEGACY_TEXT, 4, 0, false, false},
    {9, GEO_LEGACY_TEXT, 3, 0, false, false},
    {11, GEO_LEGACY_TEXT, 4, 0, false, false},
    {21, GEO_LEGACY_TEXT, 3, 0, true, false},
    {22, GEO_LEGACY_TEXT, 4, 0, true, false},
    {23, GEO_LEGACY_TEXT, 4, 0, true, false},
    {24, GEO_LEGACY_TEXT, 4, 0, true, false},
    {0, GEO_LEGACY_OTHER, 3, COUNTRY_LEAVES, false, false},
};
/* clang-format on */

static uint32_t number_at(const char *bytes, unsigned size)
{
    uint32_t number = 0;

    for (unsigned i = size; i-- > 0;) {
        number = number << 8 | (unsigned char) bytes[i];
    }
    return number;
}

/* Position of the three bytes before the type; 0: not found. */
static size_t find_structure(struct str bytes)
{
    for (size_t back = 3; back < TYPE_SEARCH + 3 && back < bytes.len; back++) {
        size_t at = bytes.len - 1 - back;

        if (number_at(bytes.data + at, 3) == 0xffffff) {
            return at;
        }
    }
    return 0;
}

bool geo_legacy_open(struct str bytes, struct geo_legacy *out)
{
    const struct edition *edition = editions;
    size_t at = bytes.len < 10 ? 0 : find_structure(bytes);

    if (at == 0) {
        return false;
    }
    unsigned type = (unsigned char) bytes.data[at + 3];
    type -= type >= 106 ? 105 : 0;
    while (edition->type != 0 && edition->type != type) {
        edition++;
    }
    *out = (struct geo_legacy){.bytes = bytes,
                               .kind = edition->kind,
                               .type = type,
                               .leaves = edition->leaves,
                               .record_size = edition->record_size,
                               .is_v6 = edition->is_v6,
                               .has_metro = edition->has_metro};
    if (edition->leaves == 0) {
        if (bytes.len - at < 7) {
            return false;
        }
        out->leaves = number_at(bytes.data + at + 4, 3);
        return (uint64_t) out->leaves * 2 * out->record_size <= bytes.len;
    }
    return true;
}

/* ---- lookup ---- */

static void address_bits(const struct geo_legacy *db, const struct addr *addr,
                         unsigned char bits[16])
{
    bool is_v4 = addr->len != 0 && addr->any.sa_family == AF_INET;
    bool is_v6 = addr->len != 0 && addr->any.sa_family == AF_INET6;

    memset(bits, 0, 16);
    if (!db->is_v6) {
        memset(bits, 0xff, 4);
        if (is_v4) {
            memcpy(bits, &addr->v4.sin_addr, 4);
        } else if (is_v6 && IN6_IS_ADDR_V4MAPPED(&addr->v6.sin6_addr)) {
            memcpy(bits, addr->v6.sin6_addr.s6_addr + 12, 4);
        }
    } else if (is_v4) {
        memset(bits + 10, 0xff, 2);
        memcpy(bits + 12, &addr->v4.sin_addr, 4);
    } else if (is_v6) {
        memcpy(bits, &addr->v6.sin6_addr, 16);
    }
}

bool geo_legacy_find(const struct geo_legacy *db, const struct addr *addr, uint32_t *leaf)
{
    unsigned char bits[16];
    unsigned depth = db->is_v6 ? 128 : 32;
    uint64_t node = 0;

    address_bits(db, addr, bits);
    for (unsigned i = 0; i < depth; i++) {
        unsigned branch = bits[i / 8] >> (7 - i % 8) & 1;
        uint64_t at = (node * 2 + branch) * db->record_size;

        if (at + db->record_size > db->bytes.len) {
            return false;
        }
        node = number_at(db->bytes.data + at, db->record_size);
        if (node >= db->leaves) {
            *leaf = (uint32_t) node - db->leaves;
            return true;
        }
    }
    return false;
}

/* ---- values of leaves ---- */

/* The bytes from a leaf's record (after the nodes) to the end of the file. False: there is none. */
static bool record_of(const struct geo_legacy *db, uint32_t leaf, struct str *out)
{
    uint64_t at = (uint64_t) db->leaves * 2 * db->record_size + leaf;

    if (leaf == 0 || at >= db->bytes.len) {
        return false;
    }
    *out = str_skip(db->bytes, (size_t) at);
    return true;
}

/* Takes a string up to its NUL. */
static bool legacy_take_text(struct str *record, struct str *out)
{
    const char *end = str_find_char(*record, '\0');

    if (end == NULL) {
        return false;
    }
    *out = str_from(record->data, end);
    *record = str_skip(*record, out->len + 1);
    return true;
}

static bool take_number(struct str *record, uint32_t *out)
{
    if (record->len < 3) {
        return false;
    }
    *out = number_at(record->data, 3);
    *record = str_skip(*record, 3);
    return true;
}

bool geo_legacy_city(const struct geo_legacy *db, uint32_t leaf, struct geo_city *out)
{
    struct str record;
    uint32_t latitude;
    uint32_t longitude;
    uint32_t codes = 0;

    if (!record_of(db, leaf, &record)) {
        return false;
    }
    *out = (struct geo_city){.country = (unsigned char) *record.data};
    record = str_skip(record, 1);
    if (!legacy_take_text(&record, &out->region) || !legacy_take_text(&record, &out->city) ||
        !legacy_take_text(&record, &out->postal_code) || !take_number(&record, &latitude) ||
        !take_number(&record, &longitude)) {
        return false;
    }
    out->latitude = (int32_t) latitude - 1800000;
    out->longitude = (int32_t) longitude - 1800000;
    if (db->has_metro && out->country == GEO_US_ID && take_number(&record, &codes)) {
        out->metro = codes / 1000;
        out->area = codes % 1000;
    }
    return true;
}

bool geo_legacy_text(const struct geo_legacy *db, uint32_t leaf, struct str *out)
{
    struct str record;

    return record_of(db, leaf, &record) && legacy_take_text(&record, out);
}

static void put_region(struct geo_region *out, uint32_t number)
{
    out->region[0] = (char) ('A' + number / 26 % 26);
    out->region[1] = (char) ('A' + number % 26);
}

/* Numbers of the newer format: 1 … 676 are regions of the US, the next 676 of Canada, then there
 * are 360 for each country. */
bool geo_legacy_region(const struct geo_legacy *db, uint32_t leaf, struct geo_region *out)
{
    enum { REGIONS = 26 * 26, CANADA = 1 + REGIONS, WORLD = CANADA + REGIONS, A_COUNTRY = 360 };

    *out = (struct geo_region){.country = 0};
    if (db->leaves == REGION_0_LEAVES) {
        out->is_us = leaf >= 1000;
        out->country = out->is_us ? 0 : leaf;
        if (out->is_us) {
            put_region(out, leaf - 1000);
        }
        return leaf != 0;
    }
    if (leaf == 0) {
        return false;
    }
    out->is_us = leaf < CANADA;
    out->is_canada = !out->is_us && leaf < WORLD;
    if (out->is_us || out->is_canada) {
        put_region(out, leaf - (out->is_us ? 1 : CANADA));
    } else {
        out->country = (leaf - WORLD) / A_COUNTRY;
    }
    return true;
}
