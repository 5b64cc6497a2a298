/* Integers and strings whose first byte begins with other bits (RFC 9204, 4.1; RFC 7541, 5). */
#ifndef HTTP_MESSAGE_PREFIXED_H
#define HTTP_MESSAGE_PREFIXED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum prefixed {
    PREFIXED_WHOLE,
    PREFIXED_PART, /* incomplete */
    PREFIXED_BAD,  /* larger than 62 bits, or than allowed */
};

/* A string as encoded. */
struct prefixed_string {
    struct str coded;
    bool is_packed; /* it has the Huffman code */
};

#define PREFIXED_INTEGER_ROOM 11 /* bytes of the longest integer */

/* prefixed_get of an integer that does not fit into its prefix, or of empty input. */
enum prefixed prefixed_get_long(struct str *from, unsigned bits, uint64_t *out);
/* Takes an integer with a prefix of this many bits from *from, which is unchanged if it is
 * incomplete. */
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
/* Takes a string: its length has a prefix of this many bits, and the bit before it means Huffman
 * code. */
enum prefixed prefixed_get_string(struct str *from, unsigned bits, size_t max,
                                  struct prefixed_string *out);

/* Decodes a Huffman-coded string into `buffer`: returns its length, or -1 if it is malformed or too
 * long. A whole byte of padding is accepted, although RFC 7541, 5.2 forbids it: nginx accepts it,
 * and clients send it. */
ptrdiff_t prefixed_unpack(struct str coded, char *buffer, size_t size);

/* prefixed_put of an integer that does not fit into its prefix. */
char *prefixed_put_long(char *at, uint8_t first, unsigned bits, uint64_t value);
/* Writes an integer after the bits of `first`; returns the end. */
static inline char *prefixed_put(char *at, uint8_t first, unsigned bits, uint64_t value)
{
    if (value >= (1u << bits) - 1) {
        return prefixed_put_long(at, first, bits, value);
    }
    *at = (char) (first | value);
    return at + 1;
}
/* Writes the shorter form of a string; needs its length plus PREFIXED_INTEGER_ROOM bytes. */
char *prefixed_put_string(char *at, uint8_t first, unsigned bits, struct str text);

#endif
