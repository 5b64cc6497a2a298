/* Fuzz target: the URI normaliser. What it gives has no dot segments, and a plain result is normal
 * already. */
#include <stdlib.h>

#include "base/arena.h"
#include "http/message/uri.h"

static void check_path(struct str path, bool merged)
{
    struct str rest = path;

    if (path.len == 0 || path.data[0] != '/' || memchr(path.data, '\0', path.len) != NULL) {
        abort();
    }
    str_cut(&rest, '/');
    while (rest.data != NULL) {
        struct str segment = str_cut(&rest, '/');
        if (str_equal(segment, STR(".")) || str_equal(segment, STR(".."))) {
            abort();
        }
        if (merged && segment.len == 0 && rest.data != NULL) {
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str target = {(const char *) data, size};
    struct arena arena;
    struct uri uri;

    arena_init(&arena);
    for (int merges = 0; merges < 2; merges++) {
        if (uri_normalise(&arena, target, merges != 0, &uri)) {
            check_path(uri.path, merges != 0);
        }
    }
    arena_free(&arena);
    return 0;
}
