/* Fuzz target: what dav_ext reads from clients, the field If and the bodies of PROPFIND and LOCK. */
#include <stdlib.h>

#include "http/modules/dav_ext/bodies.h"
#include "http/modules/dav_ext/if_header.h"

static void read_if(struct str text)
{
    struct if_reader reader;
    enum if_event event;
    size_t conditions = 0;

    if_begin(&reader, text);
    do {
        event = if_next(&reader);
        conditions += event == IF_CONDITION;
        if (conditions > text.len || (event == IF_CONDITION && reader.value.len == 0)) {
            abort();
        }
    } while (event != IF_END && event != IF_ERROR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, size};
    struct lock_info info;
    struct wanted wanted;
    struct arena arena;

    arena_init(&arena);
    read_if(text);
    if (propfind_parse(&arena, text, &wanted) && wanted.unknown.count > WANTED_UNKNOWN_MAX) {
        abort();
    }
    lockinfo_parse(&arena, text, &info);
    arena_free(&arena);
    return 0;
}
