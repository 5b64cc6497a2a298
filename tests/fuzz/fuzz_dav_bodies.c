/* Fuzz target: what dav_ext reads from clients, the field If and the bodies of PROPFIND, PROPPATCH
 * and LOCK. */
#include <stdlib.h>

#include "http/modules/content/dav_ext/bodies.h"
#include "http/modules/content/dav_ext/dead.h"
#include "http/modules/content/dav_ext/if_header.h"

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

/* What a client sets stands by itself: as it is kept, it is read again with the same names. */
static void patch(struct arena *arena, struct str text)
{
    struct vec changes;
    struct vec properties = {0};
    struct vec again;
    struct buf kept = {0};

    dead_parse(arena, text, &again);
    if (!proppatch_parse(arena, text, &changes)) {
        return;
    }
    vec_each(const struct dead_change, change, &changes) {
        dead_apply(&properties, arena, change);
    }
    dead_write(&kept, &properties);
    dead_parse(arena, buf_str(&kept), &again);
    if (again.count != properties.count) {
        abort();
    }
    vec_each(const struct dead_property, property, &properties) {
        if (dead_find(&again, &property->name) == NULL) {
            abort();
        }
    }
    buf_free(&kept);
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
    patch(&arena, text);
    lockinfo_parse(&arena, text, &info);
    arena_free(&arena);
    return 0;
}
