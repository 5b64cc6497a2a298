/*
 * Fuzz target: a GeoIP database of the legacy format. The first 16 bytes are an address, the rest
 * the file: whatever it says, what is found lies within it.
 */
#include <stdlib.h>

#include "shared/geo/legacy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_within(struct str file, struct str text)
{
    if (text.len != 0 && (text.data < file.data || text.data + text.len >= file.data + file.len)) {
        abort();
    }
}

static void look(const struct geo_legacy *db, const struct addr *addr)
{
    struct geo_region region;
    struct geo_city city;
    struct str text;
    uint32_t leaf;

    if (!geo_legacy_find(db, addr, &leaf)) {
        return;
    }
    if (geo_legacy_city(db, leaf, &city)) {
        check_within(db->bytes, city.region);
        check_within(db->bytes, city.city);
        check_within(db->bytes, city.postal_code);
    }
    if (geo_legacy_text(db, leaf, &text)) {
        check_within(db->bytes, text);
    }
    if (geo_legacy_region(db, leaf, &region) && region.region[2] != '\0') {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct addr v4 = {.len = sizeof(v4.v4), .v4.sin_family = AF_INET};
    struct addr v6 = {.len = sizeof(v6.v6), .v6.sin6_family = AF_INET6};
    struct addr none = {.len = 0};
    struct geo_legacy db;

    if (size < 16 || !geo_legacy_open((struct str){(const char *) data + 16, size - 16}, &db)) {
        return 0;
    }
    memcpy(&v4.v4.sin_addr, data, 4);
    memcpy(&v6.v6.sin6_addr, data, 16);
    look(&db, &v4);
    look(&db, &v6);
    look(&db, &none);
    return 0;
}
