/* QPACK (RFC 9204): encodes and decodes field sections of HTTP/3. Pure functions on slices; the
 * caller owns the streams. Implemented in qpack_decode.c and qpack_encode.c. */
#ifndef HTTP_MESSAGE_QPACK_H
#define HTTP_MESSAGE_QPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "http/message/field_table.h"
#include "http/message/fields.h"

#define QPACK_TABLE_DEFAULT 4096 /* bytes of a dynamic table, as RFC 9204 counts */

enum qpack_result {
    QPACK_FIELD,   /* a field, or the prefix, was decoded */
    QPACK_END,     /* the end of the section */
    QPACK_BLOCKED, /* required entries have not arrived */
    QPACK_BAD,     /* the connection must be closed (RFC 9204, 6) */
};

/* ---- decoding ---- */

/* The decoder for one connection. Freed by qpack_decoder_free. */
struct qpack_decoder {
    struct field_table table;
    size_t max_string; /* most bytes of an inserted name or value; initially the table's limit */
    uint64_t acknowledged; /* insertions that were acknowledged to the peer */
    /* Number of entries copied from others: one byte of the peer makes us copy an entry. */
    uint64_t duplicated;
    char *partial; /* an incomplete instruction; from malloc */
    size_t partial_size;
};

/* A field section: its prefix (4.5.1), and the remaining fields. */
struct qpack_section {
    struct str rest;
    size_t max_string; /* most bytes of a string; a longer one gives QPACK_BAD */
    uint64_t required; /* insertions that it requires; 0 = none, and it is not acknowledged */
    uint64_t base;
};

void qpack_decoder_init(struct qpack_decoder *decoder, size_t limit);
void qpack_decoder_free(struct qpack_decoder *decoder);
/* Takes bytes of the peer's encoder stream, in order. False: QPACK_ENCODER_STREAM_ERROR. */
bool qpack_decoder_feed(struct qpack_decoder *decoder, struct str bytes);

/* Begins a complete section by decoding its prefix: QPACK_FIELD, QPACK_BLOCKED or QPACK_BAD.
 * max_string must be set. */
enum qpack_result qpack_section_begin(const struct qpack_decoder *decoder, struct str block,
                                      struct qpack_section *section);
/* Decodes the next field. */
enum qpack_result qpack_decode(const struct qpack_decoder *decoder, struct qpack_section *section,
                               struct arena *arena, struct coded_field *field);

/* Write instructions of our decoder stream; each takes at most PREFIXED_INTEGER_ROOM bytes. The
 * first two return `at` if no instruction is needed. */
char *qpack_put_acknowledgment(char *at, struct qpack_decoder *decoder,
                               const struct qpack_section *section, uint64_t stream);
char *qpack_put_increment(char *at, struct qpack_decoder *decoder);
char *qpack_put_cancellation(char *at, uint64_t stream);

/* ---- encoding ---- */

#define QPACK_INSTRUCTIONS_SIZE 2048 /* most bytes of pending instructions */
/* Most sections with references that are not acknowledged. */
#define QPACK_SECTIONS_MAX 64

/* The encoder refers to entries only after the peer has acknowledged them, so its sections never
 * block. A field is added to the table when it is sent for the second time. Freed by
 * qpack_encoder_free. */
struct qpack_encoder {
    struct field_table table;
    uint64_t serial;         /* unique among all encoders of this process */
    uint64_t peer_capacity;  /* SETTINGS_QPACK_MAX_TABLE_CAPACITY */
    uint64_t known;          /* insertions that the peer has acknowledged */
    struct qpack_seen *seen; /* fields by hash; or NULL */
    struct qpack_sent *sent; /* sections that are not acknowledged, oldest first; or NULL */
    unsigned sent_count;
    uint64_t cancelled; /* number of stream cancellations: one byte of the peer makes us search */
    char *instructions; /* for the encoder stream; from malloc, or NULL */
    size_t instructions_size;
    char partial[12]; /* an incomplete instruction of the peer's decoder stream */
    uint8_t partial_size;
};

void qpack_encoder_init(struct qpack_encoder *encoder);
void qpack_encoder_free(struct qpack_encoder *encoder);
/* Applies the peer's SETTINGS: the maximum capacity of its table. */
void qpack_encoder_allow(struct qpack_encoder *encoder, uint64_t capacity);
/* Takes bytes of the peer's decoder stream, in order. False: QPACK_DECODER_STREAM_ERROR. */
bool qpack_encoder_feed(struct qpack_encoder *encoder, struct str bytes);

/* A field section that is being encoded. */
struct qpack_writer {
    struct qpack_encoder *encoder;
    uint64_t stream;
    uint64_t required; /* 1 + the newest entry that it refers to; 0 = none */
    uint64_t lowest;   /* the oldest entry that it refers to; UINT64_MAX = none */
    char *start;
    char *at;
};

#define QPACK_PREFIX_ROOM 24 /* bytes of a section in addition to its fields */

/* Bytes of one field of a section. */
static inline size_t qpack_field_room(struct str name, struct str value)
{
    return name.len + value.len + 24;
}

/* Begins a section of a stream. `start` must have QPACK_PREFIX_ROOM bytes, and qpack_field_room for
 * each field. */
void qpack_begin(struct qpack_writer *writer, struct qpack_encoder *encoder, uint64_t stream,
                 char *start);
/* stays_out: the field is not added to the table: not worth it, or secret. */
void qpack_put_field(struct qpack_writer *writer, struct str name, struct str value,
                     bool stays_out);
/* Content-Length, which is never added to the table. */
void qpack_put_length(struct qpack_writer *writer, struct str digits);
void qpack_put_status(struct qpack_writer *writer, unsigned status);
/* Returns the whole section, prefix and fields. */
struct str qpack_finish(struct qpack_writer *writer);

#endif
