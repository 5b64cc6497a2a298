/* Fuzz target: the field Destination of WebDAV. What is taken is a path without dot segments. */
#include <stdlib.h>

#include "http/message/dav_fields.h"
#include "http/message/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str value = {(const char *) data, size};
    struct arena arena;
    struct str path;

    arena_init(&arena);
    for (int merges = 0; merges < 2; merges++) {
        const struct dav_origin origin = {STR("http"), STR("localhost"), merges != 0};
        if (dav_destination_parse(&arena, value, &origin, &path) == DESTINATION_GOOD &&
            (!uri_is_safe(path) || path.data[0] != '/')) {
            abort();
        }
    }
    arena_free(&arena);
    return 0;
}
