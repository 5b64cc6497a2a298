/* Integers and strings after a prefix. */
#include "http/message/prefixed.h"

#include "http/message/hpack.h"

#define LAST_SHIFT 56 /* of the last byte of a 62-bit integer */

enum prefixed prefixed_get_long(struct str *from, unsigned bits, uint64_t *out)
{
    uint64_t mask = (1u << bits) - 1;
    size_t used = 1;

    if (from->len == 0) {
        return PREFIXED_PART;
    }
    uint64_t value = (unsigned char) from->data[0] & mask;
    if (value == mask) {
        for (unsigned shift = 0;; shift += 7) {
            if (used == from->len) {
                return PREFIXED_PART;
            }
            unsigned char byte = (unsigned char) from->data[used++];
            if (shift > LAST_SHIFT) {
                return PREFIXED_BAD;
            }
            value += (uint64_t) (byte & 0x7f) << shift;
            if ((byte & 0x80) == 0) {
                break;
            }
        }
        if (value >> 62 != 0) {
            return PREFIXED_BAD;
        }
    }
    *from = str_skip(*from, used);
    *out = value;
    return PREFIXED_WHOLE;
}

enum prefixed prefixed_get_string(struct str *from, unsigned bits, size_t max,
                                  struct prefixed_string *out)
{
    struct str rest = *from;
    uint64_t length;

    if (rest.len == 0) {
        return PREFIXED_PART;
    }
    out->is_packed = ((unsigned char) rest.data[0] & 1u << bits) != 0;
    enum prefixed result = prefixed_get(&rest, bits, &length);
    if (result != PREFIXED_WHOLE) {
        return result;
    }
    if (length > max) {
        return PREFIXED_BAD;
    }
    if (length > rest.len) {
        return PREFIXED_PART;
    }
    out->coded = str_head(rest, (size_t) length);
    *from = str_skip(rest, (size_t) length);
    return PREFIXED_WHOLE;
}

ptrdiff_t prefixed_unpack(struct str coded, char *buffer, size_t size)
{
    ptrdiff_t unpacked = huffman_decode(coded, buffer, size);

    /* One byte too much of padding is accepted, as in nginx. */
    if (unpacked < 0 && coded.len != 0 && (unsigned char) coded.data[coded.len - 1] == 0xff) {
        unpacked = huffman_decode(str_head(coded, coded.len - 1), buffer, size);
    }
    return unpacked;
}

char *prefixed_put_long(char *at, uint8_t first, unsigned bits, uint64_t value)
{
    uint64_t mask = (1u << bits) - 1;

    *at++ = (char) (first | mask);
    value -= mask;
    while (value >= 128) {
        *at++ = (char) (value | 0x80);
        value >>= 7;
    }
    *at++ = (char) value;
    return at;
}

char *prefixed_put_string(char *at, uint8_t first, unsigned bits, struct str text)
{
    size_t packed = huffman_size(text);

    if (packed < text.len) {
        at = prefixed_put(at, (uint8_t) (first | 1u << bits), bits, packed);
        return huffman_encode(at, text);
    }
    return str_put(prefixed_put(at, first, bits, text.len), text);
}
