/* Protocol Buffers: writes messages to a buffer, field by field, and reads them. Knows no message
 * type. */
#ifndef BASE_PROTOBUF_H
#define BASE_PROTOBUF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum protobuf_wire_type {
    PROTOBUF_VARINT = 0,
    PROTOBUF_FIXED64 = 1,
    PROTOBUF_BYTES = 2,
    PROTOBUF_FIXED32 = 5,
};

#define PROTOBUF_VARINT_MAX 10 /* bytes */

/* ---- writing ---- */

/* Seven bits a byte, the low ones first. Gives the number of bytes, at most PROTOBUF_VARINT_MAX. */
static inline size_t protobuf_varint(char *at, uint64_t value)
{
    size_t size = 0;

    while (value > 0x7f) {
        at[size++] = (char) (value | 0x80);
        value >>= 7;
    }
    at[size++] = (char) value;
    return size;
}

static inline void protobuf_put_varint(struct buf *out, uint64_t value)
{
    out->len += protobuf_varint(buf_reserve(out, PROTOBUF_VARINT_MAX), value);
}

static inline void protobuf_put_key(struct buf *out, unsigned field, enum protobuf_wire_type type)
{
    protobuf_put_varint(out, field << 3 | type);
}

static inline void protobuf_put_unsigned(struct buf *out, unsigned field, uint64_t value)
{
    protobuf_put_key(out, field, PROTOBUF_VARINT);
    protobuf_put_varint(out, value);
}

/* sint32 and sint64: numbers near 0 are short with either sign (0, -1, 1, -2, …). */
void protobuf_put_signed(struct buf *out, unsigned field, int64_t value);
void protobuf_put_fixed64(struct buf *out, unsigned field, uint64_t value);
void protobuf_put_double(struct buf *out, unsigned field, double value);
void protobuf_put_bytes(struct buf *out, unsigned field, struct str bytes);
/* A string field. Each byte that is not UTF-8 becomes U+FFFD, since readers refuse the whole
 * message otherwise. Longer text is cut to `most` bytes, at a character. */
void protobuf_put_text(struct buf *out, unsigned field, struct str text, size_t most);

/* Begins a message within a message: everything that is put until protobuf_end belongs to it. Gives
   its start, for protobuf_end. */
static inline size_t protobuf_begin(struct buf *out, unsigned field)
{
    protobuf_put_key(out, field, PROTOBUF_BYTES);
    buf_append_char(out, 0); /* most lengths need one byte */
    return out->len;
}

/* The same for a message in a stream of messages, each of which has its length before it. */
static inline size_t protobuf_begin_delimited(struct buf *out)
{
    buf_append_char(out, 0);
    return out->len;
}

/* Ends a message: writes its length before it. */
void protobuf_end(struct buf *out, size_t start);

/* ---- reading ---- */

/* A field of a message. */
struct protobuf_field {
    unsigned number;
    enum protobuf_wire_type type;
    uint64_t value;   /* for VARINT, FIXED64, FIXED32 */
    struct str bytes; /* for BYTES: a slice of the message */
};

/* Takes the next field off *message. False: there is none, or it is malformed (*is_bad). */
bool protobuf_next(struct str *message, struct protobuf_field *field, bool *is_bad);

#endif
