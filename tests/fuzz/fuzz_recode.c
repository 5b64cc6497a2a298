/*
 * Fuzz target: recoding to and from UTF-8 in pieces, against the same in one piece; and back again.
 * The first byte says how the text is cut.
 */
#include <stdlib.h>

#include "http/modules/filters/charset/recode.h"

static struct arena arena;
static struct recode_table *to_utf8;
static struct recode_table *from_utf8;

/* Upper bytes are letters spread over all planes, but for some that have none. */
static void make_tables(void)
{
    to_utf8 = recode_table_new(&arena, RECODE_TO_UTF8);
    from_utf8 = recode_table_new(&arena, RECODE_FROM_UTF8);
    for (unsigned i = 0x80; i < 0xf0; i++) {
        uint32_t code = i < 0xa0 ? i : i < 0xc0 ? i * 7 : i < 0xe0 ? i * 160 : i * 4000;
        recode_set_char(to_utf8, from_utf8, &arena, (unsigned char) i, code);
    }
}

static void recode_all(const struct recode_table *table, struct str text, size_t step, size_t room,
                       struct buf *out)
{
    struct recoder recoder = {.table = table};
    bool is_last;

    do {
        struct str piece = str_head(text, step);
        bool is_done;

        text = str_skip(text, piece.len);
        is_last = text.len == 0;
        do {
            char *at = buf_reserve(out, room);
            struct writer to = {at, at + room};
            is_done = recode(&recoder, &piece, is_last, &to);
            out->len += (size_t) (to.at - at);
        } while (!is_done);
    } while (!is_last);
}

static void must_equal(const struct buf *a, const struct buf *b)
{
    if (!str_equal(buf_str(a), buf_str(b))) {
        abort();
    }
}

/* What a table gives does not hang on how the text is cut. */
static void check(const struct recode_table *table, struct str text, size_t step, struct buf *whole)
{
    struct buf pieces = {0};

    recode_all(table, text, text.len + 1, 10 * text.len + RECODE_STEP, whole);
    recode_all(table, text, step, RECODE_STEP + step, &pieces);
    must_equal(whole, &pieces);
    buf_free(&pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf bytes = {0};
    struct buf utf8 = {0};
    struct buf again = {0};
    struct buf back = {0};

    if (size == 0 || size > 4096) {
        return 0;
    }
    if (to_utf8 == NULL) {
        make_tables();
    }
    struct str text = {(const char *) data + 1, size - 1};
    size_t step = 1 + data[0] % 32;
    check(to_utf8, text, step, &utf8);
    check(from_utf8, text, step, &bytes);
    /* Well-formed by now, of letters that are known: there and back is the same. */
    check(from_utf8, buf_str(&utf8), step, &back);
    check(to_utf8, buf_str(&back), step, &again);
    must_equal(&utf8, &again);
    buf_free(&bytes);
    buf_free(&utf8);
    buf_free(&again);
    buf_free(&back);
    return 0;
}
