/* Integers and strings whose first byte has other bits before them (RFC 9204, 4.1; RFC 7541, 5). */
#ifndef HTTP_MESSAGE_PREFIXED_H
#define HTTP_MESSAGE_PREFIXED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum prefixed {
    PREFIXED_WHOLE,
    PREFIXED_PART, /* it does not end in these bytes */
    PREFIXED_BAD,  /* larger than 62 bits, or than what was allowed */
};

/* A string as it is on the wire. */
struct prefixed_string {
    struct str coded;
    bool is_packed; /* with the Huffman code */
};

#define PREFIXED_INTEGER_ROOM 11 /* bytes of the longest one */

/* prefixed_get of an integer that does not fit its prefix, or of nothing. */
enum prefixed prefixed_get_long(struct str *from, unsigned bits, uint64_t *out);
/* Takes an integer with a prefix of so many bits off *from. *from is as it was when it is not
 * whole. */
static inline enum prefixed prefixed_get(struct str *from, unsigned bits, uint64_t *out)
{
    uint64_t mask = (1u << bits) - 1;

    if (from->len == 0 || ((unsigned char) from->data[0] & mask) == mask) {
        return prefixed_get_long(from, bits, out);
    }
    *out = (unsigned char) from->data[0] & mask;
    *from = str_skip(*from, 1);
    return PREFIXED_WHOLE;
}
/* Takes a string: the length has a prefix of so many bits, the bit before it says that it is
 * packed. */
enum prefixed prefixed_get_string(struct str *from, unsigned bits, size_t max,
                                  struct prefixed_string *out);

/*
 * The text of a string that is packed, to a room: its bytes, or -1 where it is malformed or too
 * long. A whole byte of padding is let pass, which RFC 7541, 5.2 calls an error: nginx does, and
 * clients send it.
 */
ptrdiff_t prefixed_unpack(struct str coded, char *room, size_t size);

/* prefixed_put of an integer that does not fit its prefix. */
char *prefixed_put_long(char *at, uint8_t first, unsigned bits, uint64_t value);
/* Writes an integer after the bits of `first`, and gives the place after it. */
static inline char *prefixed_put(char *at, uint8_t first, unsigned bits, uint64_t value)
{
    if (value >= (1u << bits) - 1) {
        return prefixed_put_long(at, first, bits, value);
    }
    *at = (char) (first | value);
    return at + 1;
}
/* Writes the shorter form of a string; the room is its length and PREFIXED_INTEGER_ROOM. */
char *prefixed_put_string(char *at, uint8_t first, unsigned bits, struct str text);

#endif
