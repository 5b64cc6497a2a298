/* How spans and log records are written: attributes, identifiers and times as fields of OTLP, straight to a room that is large enough.
 * Implemented in frame.c. */
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
 * Spans are written straight to a room that is large enough for all but configured attributes, with the lengths of short texts known
 * beforehand: one request in ten that is recorded must not be felt.
 */
enum { SPAN_ROOM = 16 * 1024, ATTRIBUTE_ROOM = 64 /* beside key and text */ };

/* Bytes of the lengths and keys around a short text, and the longest that all of them are single bytes with. */
enum { SHORT_AROUND = 6, SHORT_MOST = 127 - SHORT_AROUND };

static inline char *put_byte(char *at, unsigned byte)
{
    *at = (char) byte;
    return at + 1;
}

static inline bool is_ascii(struct str text)
{
    uint64_t word, bits = 0;
    size_t at = 0;

    for (; text.len - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, text.data + at, sizeof(word));
        bits |= word;
    }
    for (; at < text.len; at++) {
        bits |= (unsigned char) text.data[at];
    }
    return (bits & 0x8080808080808080u) == 0;
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

/* There are key.len + most + ATTRIBUTE_ROOM bytes of room. */
static inline char *put_text(char *at, unsigned field, struct str key, struct str value,
                             size_t most)
{
    if (key.len + value.len > SHORT_MOST - 2 || !is_ascii(value)) {
        return otel_put_long_text(at, field, key, value, most);
    }
    at = put_key_of(at, field, key, value.len + 2);
    at = put_byte(at, VALUE_STRING << 3 | PROTOBUF_BYTES);
    at = put_byte(at, (unsigned) value.len);
    return str_put(at, value);
}

/* What is not known is left out. */
static inline char *put_own_text(char *at, unsigned field, struct str key, struct str value)
{
    return value.len == 0 ? at : put_text(at, field, key, value, TEXT_MOST);
}

static inline char *put_number(char *at, unsigned field, struct str key, uint64_t value)
{
    char *start = put_key_of(at, field, key, 0);

    at = put_byte(start, VALUE_INT << 3 | PROTOBUF_VARINT);
    at += protobuf_varint(at, value);
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

/* The length of a message goes before it, where two bytes were left for it: it has more than 127 bytes, and seldom more than two tell. */
void otel_put_length(struct buf *out, size_t at);

#endif
