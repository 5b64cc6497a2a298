/* Integers of variable length (RFC 9000, 16), and writing to memory of a known size. */
#ifndef NET_QUIC_VARINT_H
#define NET_QUIC_VARINT_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

#define QUIC_VARINT_MOST ((UINT64_C(1) << 62) - 1)

/* Bytes that the value takes. */
static inline unsigned quic_varint_size(uint64_t value)
{
    return value < 64 ? 1 : value < 16384 ? 2 : value < (1u << 30) ? 4 : 8;
}

/* Takes one off the front; false: there are fewer bytes than its first byte says. */
static inline bool quic_varint_read(struct str *from, uint64_t *out)
{
    if (from->len == 0) {
        return false;
    }
    const unsigned char *at = (const unsigned char *) from->data;
    unsigned size = 1u << (at[0] >> 6);

    if (from->len < size) {
        return false;
    }
    uint64_t value = at[0] & 0x3f;
    for (unsigned i = 1; i < size; i++) {
        value = value << 8 | at[i];
    }
    *out = value;
    *from = str_skip(*from, size);
    return true;
}

/* Memory that is written to from the front. What does not fit sets `is_short`, and nothing more is
 * written. */
struct quic_out {
    unsigned char *at;
    unsigned char *end;
    bool is_short;
};

static inline size_t quic_out_left(const struct quic_out *out)
{
    return (size_t) (out->end - out->at);
}

static inline bool quic_out_has(struct quic_out *out, size_t size)
{
    out->is_short = out->is_short || quic_out_left(out) < size;
    return !out->is_short;
}

static inline void quic_put_bytes(struct quic_out *out, const void *bytes, size_t size)
{
    if (quic_out_has(out, size) && size != 0) {
        memcpy(out->at, bytes, size);
        out->at += size;
    }
}

/* The least significant `size` bytes, in network order. */
static inline void quic_put_number(struct quic_out *out, uint64_t value, unsigned size)
{
    const uint16_t two = htobe16((uint16_t) value);
    const uint32_t four = htobe32((uint32_t) value);
    const uint64_t eight = htobe64(value);

    if (!quic_out_has(out, size)) {
        return;
    }
    switch (size) { /* a copy of a known size is one instruction */
    case 1:
        out->at[0] = (unsigned char) value;
        break;
    case 2:
        memcpy(out->at, &two, sizeof(two));
        break;
    case 4:
        memcpy(out->at, &four, sizeof(four));
        break;
    case 8:
        memcpy(out->at, &eight, sizeof(eight));
        break;
    default:
        memcpy(out->at, (const char *) &eight + sizeof(eight) - size, size);
        break;
    }
    out->at += size;
}

/* With a size of its own, 2, 4 or 8, where the value is not known yet or its place has a fixed
 * size. */
static inline void quic_put_varint_sized(struct quic_out *out, uint64_t value, unsigned size)
{
    unsigned prefix = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;

    quic_put_number(out, value | (uint64_t) prefix << (8 * size - 2), size);
}

static inline void quic_put_varint(struct quic_out *out, uint64_t value)
{
    quic_put_varint_sized(out, value, quic_varint_size(value));
}

#endif
