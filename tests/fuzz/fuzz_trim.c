/*
 * Fuzz target: trimming HTML in pieces, against the same in one piece; no more goes out than came
 * in. The first byte says how the text is cut, and what is trimmed besides.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "http/modules/filters/trim/trimmer.h"

static void trim_all(struct str text, size_t step, unsigned what, struct buf *out)
{
    struct trimmer trimmer = {.trims_scripts = (what & 1) != 0, .trims_styles = (what & 2) != 0};
    bool is_last;
    size_t taken = 0;

    do {
        struct str piece = str_head(text, step);

        text = str_skip(text, piece.len);
        is_last = text.len == 0;
        taken += piece.len;
        char *at = buf_reserve(out, piece.len + TRIM_HELD);
        char *end = trimmer_feed(&trimmer, piece, is_last, at);
        if ((size_t) (end - at) > piece.len + TRIM_HELD) {
            abort();
        }
        out->len += (size_t) (end - at);
        if (out->len > taken) {
            abort();
        }
    } while (!is_last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = {0};
    struct buf pieces = {0};

    if (size == 0 || size > 4096) {
        return 0;
    }
    struct str text = {(const char *) data + 1, size - 1};
    trim_all(text, text.len + 1, data[0] >> 6, &whole);
    trim_all(text, 1 + data[0] % 32, data[0] >> 6, &pieces);
    if (!str_equal(buf_str(&whole), buf_str(&pieces))) {
        abort();
    }
    buf_free(&whole);
    buf_free(&pieces);
    return 0;
}
