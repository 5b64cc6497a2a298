/* chunks: the chunked coding of HTTP/1.1. */

#include "chunks.h"

enum { SIZE_BITS = 48 }; /* a size of more bits is nonsense */

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of the line of a size. False: it cannot stand there. */
static bool size_byte(struct chunks *chunks, char c)
{
    int digit = digit_of(c);

    if (c == '\n') {
        if (!chunks->has_digits)
            return false;
        chunks->state = chunks->left > 0 ? CHUNKS_DATA : CHUNKS_TRAILER;
        chunks->has_digits = chunks->past_digits = false;
    } else if (chunks->past_digits) {
        return true;
    } else if (digit >= 0) {
        chunks->left = chunks->left << 4 | (uint64_t) digit;
        chunks->has_digits = true;
        return chunks->left >> SIZE_BITS == 0;
    } else {
        chunks->past_digits = true;
        return c == '\r' || c == ';' || c == ' ';
    }
    return true;
}

/* One byte that is no data. False: it cannot stand there. */
static bool frame_byte(struct chunks *chunks, char c)
{
    if (chunks->state == CHUNKS_SIZE)
        return size_byte(chunks, c);
    if (chunks->state == CHUNKS_AFTER) {
        if (c == '\n')
            chunks->state = CHUNKS_SIZE;
        return c == '\n' || c == '\r';
    }
    if (c == '\n') {
        if (!chunks->has_digits)
            chunks->state = CHUNKS_END;
        chunks->has_digits = false;
    } else if (c != '\r') {
        chunks->has_digits = true;
    }
    return true;
}

ptrdiff_t chunks_read(struct chunks *chunks, const char *data, size_t size, uint64_t *body_bytes)
{
    size_t used = 0;

    while (used < size && chunks->state != CHUNKS_END) {
        if (chunks->state != CHUNKS_DATA) {
            if (!frame_byte(chunks, data[used++]))
                return -1;
            continue;
        }
        size_t take = size - used < chunks->left ? size - used : (size_t) chunks->left;
        used += take;
        *body_bytes += take;
        chunks->left -= take;
        if (chunks->left == 0)
            chunks->state = CHUNKS_AFTER;
    }
    return (ptrdiff_t) used;
}
