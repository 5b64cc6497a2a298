/*
 * Fuzz target: a database of MaxMind's format. The first 16 bytes are an address, the rest the
 * file: whatever it says, what is found lies within it.
 */
#include <stdlib.h>

#include "shared/geo/mmdb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const struct geo_mmdb *db, const struct addr *addr)
{
    static const struct str paths[] = {STR_INIT("a"), STR_INIT("0"), STR_INIT("-1"), STR_INIT("b")};
    struct geo_value value;
    size_t position;

    if (!geo_mmdb_find(db, addr, &position)) {
        return;
    }
    for (size_t count = 0; count <= 4; count++) {
        if (geo_mmdb_value(db, position, paths, count, &value) && value.bytes.len != 0 &&
            (value.bytes.data < db->data.data ||
             value.bytes.data + value.bytes.len > db->data.data + db->data.len)) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct addr v4 = {.len = sizeof(v4.v4), .v4.sin_family = AF_INET};
    struct addr v6 = {.len = sizeof(v6.v6), .v6.sin6_family = AF_INET6};
    struct geo_mmdb db;

    if (size < 16 ||
        geo_mmdb_open((struct str){(const char *) data + 16, size - 16}, &db) != NULL) {
        return 0;
    }
    memcpy(&v4.v4.sin_addr, data, 4);
    memcpy(&v6.v6.sin6_addr, data, 16);
    look(&db, &v4);
    look(&db, &v6);
    return 0;
}
