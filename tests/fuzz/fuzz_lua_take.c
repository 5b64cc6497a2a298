/* Fuzz target: what belongs to one receive of a socket of Lua. However the input is cut, the same bytes come out, and none is
 * lost or looked at twice. */
#include <stdlib.h>

#include "base/buf.h"
#include "lua/sockets/take.h"

#define DELIMITER_MAX 15

/* Receives again and again until the input is used up; all that was received, with a mark at each end. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum take_kind kinds[] = {TAKE_SIZE, TAKE_LINE, TAKE_ALL, TAKE_UNTIL};
    struct str input = {(const char *) data, size};
    struct buf whole = {0}, cut = {0};

    if (size < 3) {
        return 0;
    }
    size_t length = 1 + data[1] % DELIMITER_MAX;
    struct str text = str_head(str_skip(input, 2), length);
    input = str_skip(input, 2 + text.len);
    receive_all(kinds[data[0] % 4], text, input, input.len + 1, &whole);
    receive_all(kinds[data[0] % 4], text, input, 1 + data[0] / 4 % 7, &cut);
    if (!str_equal(buf_str(&whole), buf_str(&cut))) {
        abort();
    }
    buf_free(&whole);
    buf_free(&cut);
    return 0;
}
