/* Fuzz target: byte ranges. What is given lies inside the body and sums up to no more than it. */
#include <stdlib.h>

#include "http/message/ranges_parse.h"

static void check(const struct vec *ranges, uint64_t size, uint64_t most)
{
    uint64_t left = size;

    if (ranges->count == 0 || ranges->count > most) {
        abort();
    }
    vec_each(const struct byte_range, range, ranges) {
        if (range->start >= range->end || range->end > size || range->end - range->start > left) {
            abort();
        }
        left -= range->end - range->start;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint64_t sizes[] = {0, 1, 10, 1000000, INT64_MAX};
    struct str text = {(const char *) data, size};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (uint64_t most = 1; most < 100; most *= 9) {
            struct arena arena;
            struct vec ranges;

            arena_init(&arena);
            if (ranges_parse(text, sizes[i], most, &arena, &ranges) == RANGES_SOME) {
                check(&ranges, sizes[i], most);
            }
            arena_free(&arena);
        }
    }
    return 0;
}
