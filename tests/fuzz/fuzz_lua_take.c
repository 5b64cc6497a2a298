/* Fuzz target: what belongs to one receive of a socket of Lua. However the input is cut, the same
 * bytes come out, and none is lost or looked at twice. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "lua/sockets/take.h"

#define DELIMITER_MAX 15

/* Receives again and again until the input is used up; all that was received, with a mark at each
 * end. */
static void receive_all(enum take_kind kind, struct str text, struct str input, size_t step,
                        struct buf *out)
{
    uint32_t shorter[DELIMITER_MAX + 1];
    struct delimiter delimiter;
    size_t at = 0;

    delimiter_init(&delimiter, text, shorter);
    while (at < input.len) {
        struct take take = {.kind = kind,
                            .rest = kind == TAKE_SIZE ? text.len : TAKE_NO_LIMIT,
                            .delimiter = &delimiter};
        bool is_done = false;

        while (at < input.len && !is_done) {
            struct str piece = str_head(str_skip(input, at), step);
            uint32_t seen = delimiter.seen;
            struct taken taken = take_step(&take, piece);

            if (taken.used > piece.len ||
                (taken.used == 0 && taken.bytes.len == 0 && !taken.is_done) ||
                taken.bytes.len > piece.len + seen + text.len) {
                abort();
            }
            buf_append(out, taken.bytes);
            at += taken.used;
            is_done = taken.is_done;
        }
        if (is_done) {
            buf_append_char(out, '|');
        }
    }
}

/* What TAKE_UNTIL gives of an input by the plain way: looking for the delimiter at each place. */
static void split_all(struct str text, struct str input, struct buf *out)
{
    while (input.len != 0) {
        const char *found = memmem(input.data, input.len, text.data, text.len);

        if (found == NULL) {
            buf_append(out, input);
            return;
        }
        size_t len = (size_t) (found - input.data);
        buf_append(out, str_head(input, len));
        buf_append_char(out, '|');
        input = str_skip(input, len + text.len);
    }
}

/* Is it all of it, but perhaps for an end that may be the beginning of a delimiter? That is held
 * back. */
static bool is_beginning(struct str given, struct str all, struct str text)
{
    size_t held = all.len - given.len;

    return given.len <= all.len && held < text.len && str_equal(given, str_head(all, given.len)) &&
           str_equal(str_skip(all, given.len), str_head(text, held));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum take_kind kinds[] = {TAKE_SIZE, TAKE_LINE, TAKE_ALL, TAKE_UNTIL};
    struct str input = {(const char *) data, size};
    struct buf whole = {0}, cut = {0}, plain = {0};

    if (size < 3) {
        return 0;
    }
    size_t length = 1 + data[1] % DELIMITER_MAX;
    struct str text = str_head(str_skip(input, 2), length);
    input = str_skip(input, 2 + text.len);
    enum take_kind kind = kinds[data[0] % 4];
    receive_all(kind, text, input, input.len + 1, &whole);
    receive_all(kind, text, input, 1 + data[0] / 4 % 7, &cut);
    if (!str_equal(buf_str(&whole), buf_str(&cut))) {
        abort();
    }
    if (kind == TAKE_UNTIL && input.len != 0) {
        split_all(text, input, &plain);
        if (!is_beginning(buf_str(&whole), buf_str(&plain), text)) {
            abort();
        }
    }
    buf_free(&whole);
    buf_free(&cut);
    buf_free(&plain);
    return 0;
}
