/*
 * Fuzz target: the decoder of gzip, whole and in pieces. Both fail, or both give the same. The
 * first byte says how the text is cut.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "http/modules/filters/gunzip/gunzip.h"

#define OUTPUT_MAX (1u << 20) /* bytes; a bomb is not followed further */

enum outcome { WHOLE, BROKEN, ENDLESS };

static const struct log quiet; /* no sinks */

/* Takes `step` bytes at a time and gives at most `room`. */
static enum outcome decode(struct str text, size_t step, unsigned room, struct buf *out)
{
    struct codec_shape shape = {.kind = &codec_inflate, .out_size = room};
    struct codec *codec = codec_take(&shape, -1);
    enum outcome outcome = WHOLE;
    bool is_last;

    do {
        struct str piece = str_head(text, step);
        enum codec_step result;

        text = str_skip(text, piece.len);
        is_last = text.len == 0;
        do {
            result = shape.kind->step(codec, &piece, is_last ? CODEC_END : CODEC_GO_ON, &quiet);
            buf_append(out, (struct str){(char *) codec->out, codec->out_used});
            codec->out_used = 0;
        } while (result == CODEC_FULL && out->len < OUTPUT_MAX);
        outcome = result == CODEC_FAILED ? BROKEN : out->len >= OUTPUT_MAX ? ENDLESS : WHOLE;
        if (outcome == WHOLE && piece.len != 0) {
            abort(); /* done, and not all was taken */
        }
    } while (outcome == WHOLE && !is_last);
    codec_give(codec);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf whole = {0};
    struct buf pieces = {0};

    if (size == 0) {
        return 0;
    }
    struct str text = {(const char *) data + 1, size - 1};
    enum outcome at_once = decode(text, text.len + 1, 4096, &whole);
    enum outcome cut = decode(text, 1 + data[0] % 16, 1 + data[0] / 4, &pieces);
    if (at_once != ENDLESS && cut != ENDLESS &&
        (at_once != cut || (at_once == WHOLE && !str_equal(buf_str(&whole), buf_str(&pieces))))) {
        abort();
    }
    buf_free(&whole);
    buf_free(&pieces);
    return 0;
}
