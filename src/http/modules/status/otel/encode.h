/* How spans and log records are written: attributes, identifiers and times as fields of OTLP,
 * straight to a room that is large enough. Implemented in frame.c. */
#ifndef HTTP_MODULES_STATUS_OTEL_ENCODE_H
#define HTTP_MODULES_STATUS_OTEL_ENCODE_H

#include <endian.h>
#include <string.h>

#include "base/protobuf.h"

/* Numbers of fields. */
enum { PAIR_KEY = 1, PAIR_VALUE = 2 };
enum { VALUE_STRING = 1, VALUE_INT = 3 };
enum { SCOPE_ITEMS = 2 }; /* spans, log records, metrics: of ScopeSpans and its likes */

/* Bytes that are sent of a text: a client may write as much as its head has room for. */
enum { TEXT_MOST = 1024, TARGET_MOST = 4096 };

/*
 * Spans are written straight to a room that is large enough for all but configured attributes, with
 * the lengths of short texts known beforehand: one request in ten that is recorded must not be
 * felt.
 */
enum { SPAN_ROOM = 16 * 1024, ATTRIBUTE_ROOM = 64 /* beside key and text */ };

/* Bytes of the lengths and keys around a short text, and the longest that all of them are single
 * bytes with. */
enum { SHORT_AROUND = 6, SHORT_MOST = 127 - SHORT_AROUND };

/* Room for a span at the end of the buffer. */
static inline char *span_room(struct buf *out)
{
    return out->capacity - out->len >= SPAN_ROOM ? out->data + out->len
                                                 : buf_reserve(out, SPAN_ROOM);
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

#define NOT_ASCII 0x8080808080808080u /* of eight bytes */

#define COPY_WORD(TYPE, TO, FROM)                                                                  \
    do {                                                                                           \
        TYPE word;                                                                                 \
        memcpy(&word, FROM, sizeof(word));                                                         \
        memcpy(TO, &word, sizeof(word));                                                           \
        bits |= word;                                                                              \
    } while (0)

/* Copies a text and gives the bits that its bytes have, so that it is read once; a short one by two
 * words that overlap. */
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

/* Key, and the lengths around it. */
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

/* What is long, or no ASCII. */
char *otel_put_long_text(char *at, unsigned field, struct str key, struct str value, size_t most);

/* There are key.len + most + ATTRIBUTE_ROOM bytes of room. Inlined, so that a constant key is a few
 * words. */
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

/* What is not known is left out. */
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

/* The same of a message that has more. */
void otel_put_long_length(struct buf *out, size_t at);

/* The length of a message goes before it, where two bytes were left for it: it has more than 127
 * bytes, and seldom more than two tell. */
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
