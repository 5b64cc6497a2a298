/*
 * Fuzz target: the search for several texts, against one that looks at each place for each pattern.
 * The input is lines of patterns up to an empty line, then the text; its first byte says how the
 * text is cut.
 */
#include <stdlib.h>

#include "base/buf.h"
#include "http/modules/filters/sub/search.h"

#define PATTERNS 6

static struct str patterns[PATTERNS];
static unsigned count;
static bool is_once;

static void put_match(struct buf *out, unsigned pattern)
{
    buf_append_char(out, '<');
    buf_append_char(out, (char) ('0' + pattern));
    buf_append_char(out, '>');
}

/* What must come out. */
static void search_simply(struct str text, struct buf *out)
{
    bool is_used[PATTERNS] = {false};

    while (text.len != 0) {
        unsigned i = 0;

        while (i < count &&
               (is_used[i] || patterns[i].len == 0 || !str_starts_nocase(text, patterns[i]))) {
            i++;
        }
        if (i < count) {
            put_match(out, i);
            is_used[i] = is_once;
            text = str_skip(text, patterns[i].len);
        } else {
            buf_append_char(out, *text.data);
            text = str_skip(text, 1);
        }
    }
}

static void search_in_pieces(struct str text, size_t step, struct buf *out)
{
    struct arena arena;
    struct search search;
    struct str part;
    unsigned pattern;
    enum search_event event;
    bool is_last;

    arena_init(&arena);
    search_begin(&search, &arena, search_set_make(&arena, patterns, count));
    do {
        struct str piece = str_head(text, step);

        text = str_skip(text, piece.len);
        is_last = text.len == 0;
        search_feed(&search, piece, is_last);
        while ((event = search_next(&search, &part, &pattern)) != SEARCH_MORE) {
            if (event == SEARCH_TEXT) {
                buf_append(out, part);
            } else {
                put_match(out, pattern);
                if (is_once) {
                    search_drop(&search, pattern);
                }
            }
        }
    } while (!is_last);
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *) data, size};
    struct buf expected = {0};
    struct buf got = {0};
    struct str line;

    if (size < 2 || size > 4096) {
        return 0;
    }
    is_once = (data[0] & 1) != 0;
    text = str_skip(text, 1);
    count = 0;
    while (count < PATTERNS && text.data != NULL && (line = str_cut(&text, '\n')).len != 0) {
        patterns[count++] = line;
    }
    if (text.data == NULL || text.len == 0) {
        return 0;
    }
    search_simply(text, &expected);
    search_in_pieces(text, 1 + data[0] / 2 % 16, &got);
    if (!str_equal(buf_str(&expected), buf_str(&got))) {
        abort();
    }
    buf_free(&expected);
    buf_free(&got);
    return 0;
}
