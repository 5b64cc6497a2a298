/* Encodes spans and log records: attributes, ids and times as fields of OTLP, directly into a
 * buffer that is large enough. Implemented in frame.c. */
#ifndef HTTP_MODULES_STATUS_OTEL_ENCODE_H
#define HTTP_MODULES_STATUS_OTEL_ENCODE_H

#include <endian.h>
#include <string.h>

#include "base/protobuf.h"

/* Field numbers. */
enum { PAIR_KEY = 1, PAIR_VALUE = 2 };
enum { VALUE_STRING = 1, VALUE_INT = 3 };
enum { SCOPE_ITEMS = 2 }; /* spans, log records, metrics: of ScopeSpans and similar messages */

/* Bytes of a string that are sent; a client may send as much as the header limits allow. */
enum { TEXT_MOST = 1024, TARGET_MOST = 4096 };

/* Spans are written directly into a buffer with space for all but configured attributes, and the
 * lengths of short strings are computed first: recording one request in ten must have no noticeable
 * cost. */
enum { SPAN_SIZE = 16 * 1024, ATTRIBUTE_SIZE = 64 /* in addition to key and value */ };

/* Bytes for the lengths and keys around a short string, and the longest string with which all of
 * them are single bytes. */
enum { SHORT_AROUND = 6, SHORT_MOST = 127 - SHORT_AROUND };

/* Reserves space for a span at the end of the buffer. */
static inline char *span_reserve(struct buf *out)
{
    return out->capacity - out->len >= SPAN_SIZE ? out->data + out->len
                                                 : buf_reserve(out, SPAN_SIZE);
}

static inline char *put_byte(char *at, unsigned byte)
{
    *at = (char) byte;
    return at + 1;
}

static inline char *put_varint(char *at, uint64_t value)
{
    if (value < 1 << 7) {
        return put_byte(at, (unsigned) value);
    }
    if (value < 1 << 14) {
        return put_byte(put_byte(at, (unsigned) value | 0x80), (unsigned) value >> 7);
    }
    if (value < 1 << 21) {
        at = put_byte(at, (unsigned) value | 0x80);
        return put_byte(put_byte(at, (unsigned) (value >> 7) | 0x80), (unsigned) (value >> 14));
    }
    return at + protobuf_varint(at, value);
}

#define NOT_ASCII 0x8080808080808080u /* in any of eight bytes */

#define COPY_WORD(TYPE, TO, FROM)                                                                  \
    do {                                                                                           \
        TYPE word;                                                                                 \
        memcpy(&word, FROM, sizeof(word));                                                         \
        memcpy(TO, &word, sizeof(word));                                                           \
        bits |= word;                                                                              \
    } while (0)

/* Copies a string and returns the OR of its bytes, so that it is read once; a short one by two
 * overlapping words. */
static inline __attribute__((always_inline)) uint64_t put_bytes(char *at, struct str text)
{
    size_t len = text.len;
    const char *from = text.data;
    uint64_t bits = 0;

    if (len >= 8) {
        for (size_t i = 0; i + 8 < len; i += 8) {
            COPY_WORD(uint64_t, at + i, from + i);
        }
        COPY_WORD(uint64_t, at + len - 8, from + len - 8);
    } else if (len >= 4) {
        COPY_WORD(uint32_t, at, from);
        COPY_WORD(uint32_t, at + len - 4, from + len - 4);
    } else if (len != 0) {
        COPY_WORD(uint8_t, at, from);
        COPY_WORD(uint8_t, at + len / 2, from + len / 2);
        COPY_WORD(uint8_t, at + len - 1, from + len - 1);
    }
    return bits;
}

/* Writes the key, and the lengths around it. */
static inline char *put_key_of(char *at, unsigned field, struct str key, size_t value_size)
{
    at = put_byte(at, field << 3 | PROTOBUF_BYTES);
    at = put_byte(at, (unsigned) (key.len + value_size + 4));
    at = put_byte(at, PAIR_KEY << 3 | PROTOBUF_BYTES);
    at = put_byte(at, (unsigned) key.len);
    memcpy(at, key.data, key.len);
    at += key.len;
    at = put_byte(at, PAIR_VALUE << 3 | PROTOBUF_BYTES);
    return put_byte(at, (unsigned) value_size);
}

/* Writes a long string, or one that is not ASCII. */
char *otel_put_long_text(char *at, unsigned field, struct str key, struct str value, size_t most);

/* There must be space for key.len + most + ATTRIBUTE_SIZE bytes. Inlined, so that a constant key
 * becomes a few stores. */
static inline __attribute__((always_inline)) char *put_text(char *at, unsigned field,
                                                            struct str key, struct str value,
                                                            size_t most)
{
    if (key.len + value.len > SHORT_MOST - 2) {
        return otel_put_long_text(at, field, key, value, most);
    }
    char *next = put_key_of(at, field, key, value.len + 2);
    next = put_byte(next, VALUE_STRING << 3 | PROTOBUF_BYTES);
    next = put_byte(next, (unsigned) value.len);
    return (put_bytes(next, value) & NOT_ASCII) == 0
               ? next + value.len
               : otel_put_long_text(at, field, key, value, most);
}

/* Omits an empty value. */
static inline __attribute__((always_inline)) char *put_own_text(char *at, unsigned field,
                                                                struct str key, struct str value)
{
    return value.len == 0 ? at : put_text(at, field, key, value, TEXT_MOST);
}

static inline __attribute__((always_inline)) char *put_number(char *at, unsigned field,
                                                              struct str key, uint64_t value)
{
    char *start = put_key_of(at, field, key, 0);

    at = put_byte(start, VALUE_INT << 3 | PROTOBUF_VARINT);
    at = put_varint(at, value);
    start[-1] = (char) (at - start);
    *(start - 1 - key.len - 4) = (char) (key.len + 4 + (size_t) (at - start));
    return at;
}

/* ---- identifiers and times ---- */

static inline char *put_id(char *at, unsigned field, const unsigned char *id, size_t size)
{
    at = put_byte(at, field << 3 | PROTOBUF_BYTES);
    at = put_byte(at, (unsigned) size);
    memcpy(at, id, size);
    return at + size;
}

static inline char *put_time(char *at, unsigned field, uint64_t ns)
{
    ns = htole64(ns);
    at = put_byte(at, field << 3 | PROTOBUF_FIXED64);
    memcpy(at, &ns, sizeof(ns));
    return at + sizeof(ns);
}

/* The same for a longer message. */
void otel_put_long_length(struct buf *out, size_t at);

/* Writes the length of a message into the two bytes left for it: usually it is between 128 and
 * 16383. */
static inline void otel_put_length(struct buf *out, size_t at)
{
    size_t size = out->len - at - 2;

    if (size < 1 << 14) {
        out->data[at] = (char) (size | 0x80);
        out->data[at + 1] = (char) (size >> 7);
    } else {
        otel_put_long_length(out, at);
    }
}

#endif
