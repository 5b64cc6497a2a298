/* Takes numbers and strings off the front of a peer's message. Each gives false when there are not
 * enough bytes, and may have consumed some then. */
#ifndef BASE_WIRE_H
#define BASE_WIRE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

/* A number of `bytes` bytes (8 at most), in network byte order. */
static inline bool wire_number(struct str *from, unsigned bytes, size_t *out)
{
    if (from->len < bytes) {
        return false;
    }
    *out = 0;
    for (unsigned i = 0; i < bytes; i++) {
        *out = *out << 8 | (unsigned char) from->data[i];
    }
    *from = str_skip(*from, bytes);
    return true;
}

static inline bool wire_bytes(struct str *from, size_t size, struct str *out)
{
    if (size > from->len) {
        return false;
    }
    *out = str_head(*from, size);
    *from = str_skip(*from, size);
    return true;
}

/* A string whose length, in length_bytes bytes, comes before it. */
static inline bool wire_piece(struct str *from, unsigned length_bytes, struct str *out)
{
    size_t size;

    return wire_number(from, length_bytes, &size) && wire_bytes(from, size, out);
}

#endif
