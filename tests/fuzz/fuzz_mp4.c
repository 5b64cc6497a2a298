/*
 * Fuzz target: a moov box is cut, and what comes of it, cut again from its beginning, is as long.
 * The first bytes say what is wanted.
 */
#include <stdlib.h>

#include "http/modules/content/mp4/cut.h"

static void must(bool is_so)
{
    if (!is_so) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4 || size > 65536) {
        return 0;
    }
    struct cut cut = {
        .start_ms = (uint64_t) data[0] * 100,
        .end_ms = data[1] == 0 ? CUT_TO_THE_END : (uint64_t) (data[0] + data[1]) * 100,
        .at_key_frame = (data[2] & 1) != 0,
        .is_large = (data[2] & 2) != 0,
        .file_size = (data[2] & 4) != 0 ? UINT64_MAX : (uint64_t) data[3] << 12,
    };
    struct str moov = {(const char *) data + 4, size - 4};
    if (cut_video(&cut, moov)) {
        struct str rest = buf_str(&cut.moov);
        struct box box;

        must(cut.first <= cut.last && cut.last <= cut.file_size);
        must(box_next(&rest, &box) && box.type == BOX('m', 'o', 'o', 'v') && rest.len == 0);
        must(cut.moov.len <= 2 * size + 4096 * (size_t) cut.tracks);
        cut_position(&cut, 1000);
        struct cut again = {.end_ms = CUT_TO_THE_END, .file_size = UINT64_MAX};
        must(cut_video(&again, box.data) || again.problem != NULL);
        buf_free(&again.moov);
    } else {
        must(cut.problem != NULL);
    }
    buf_free(&cut.moov);
    return 0;
}
