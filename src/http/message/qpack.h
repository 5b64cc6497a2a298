/* QPACK (RFC 9204): field sections of HTTP/3, both ways. Pure functions on slices; who calls owns
 * the streams. Implemented in qpack_decode.c and qpack_encode.c. */
#ifndef HTTP_MESSAGE_QPACK_H
#define HTTP_MESSAGE_QPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "http/message/field_table.h"
#include "http/message/fields.h"

#define QPACK_TABLE_DEFAULT 4096 /* bytes of a dynamic table, as RFC 9204 counts them */

enum qpack_result {
    QPACK_FIELD,   /* a field, or the prefix, was decoded */
    QPACK_END,     /* the section is used up */
    QPACK_BLOCKED, /* entries that it needs have not arrived */
    QPACK_BAD,     /* the connection ends (RFC 9204, 6) */
};

/* ---- decoding ---- */

/* Our side of what the peer encodes. Freed by qpack_decoder_free. */
struct qpack_decoder {
    struct field_table table;
    size_t max_string;     /* bytes of a name or a value that is inserted; the limit at first */
    uint64_t acknowledged; /* insertions that the peer knows we have */
    uint64_t
        duplicated; /* entries that were made of others: a byte of the peer's costs us an entry */
    char *partial;  /* an instruction that is not whole; from malloc */
    size_t partial_size;
};

/* A field section: its prefix (4.5.1), and what is still to be decoded. */
struct qpack_section {
    struct str rest;
    size_t max_string; /* bytes of a string; a longer one is QPACK_BAD */
    uint64_t required; /* insertions that it needs; 0 = none, and it is not acknowledged */
    uint64_t base;
};

void qpack_decoder_init(struct qpack_decoder *decoder, size_t limit);
void qpack_decoder_free(struct qpack_decoder *decoder);
/* Bytes of the peer's encoder stream, in order. False: QPACK_ENCODER_STREAM_ERROR. */
bool qpack_decoder_feed(struct qpack_decoder *decoder, struct str bytes);

/* Begins a whole section by its prefix: QPACK_FIELD, QPACK_BLOCKED or QPACK_BAD. max_string is set
 * already. */
enum qpack_result qpack_section_begin(const struct qpack_decoder *decoder, struct str block,
                                      struct qpack_section *section);
/* The next field. */
enum qpack_result qpack_decode(const struct qpack_decoder *decoder, struct qpack_section *section,
                               struct arena *arena, struct coded_field *field);

/* Instructions of our decoder stream; each has PREFIXED_INTEGER_ROOM. The first two give `at` where
 * nothing is to be said. */
char *qpack_put_acknowledgment(char *at, struct qpack_decoder *decoder,
                               const struct qpack_section *section, uint64_t stream);
char *qpack_put_increment(char *at, struct qpack_decoder *decoder);
char *qpack_put_cancellation(char *at, uint64_t stream);

/* ---- encoding ---- */

#define QPACK_INSTRUCTIONS_ROOM 2048 /* bytes of instructions that wait to be sent */
#define QPACK_SECTIONS_MAX 64        /* sections that refer to entries and are not acknowledged */

/*
 * The encoder refers to entries only after the peer has acknowledged them: its sections never
 * block. A field gets into the table when it is sent for the second time. Freed by
 * qpack_encoder_free.
 */
struct qpack_encoder {
    struct field_table table;
    uint64_t serial;         /* no other encoder of this process has it, nor will have */
    uint64_t peer_capacity;  /* SETTINGS_QPACK_MAX_TABLE_CAPACITY */
    uint64_t known;          /* insertions that the peer has acknowledged */
    struct qpack_seen *seen; /* fields by hash; or NULL */
    struct qpack_sent *sent; /* sections that are not acknowledged, oldest first; or NULL */
    unsigned sent_count;
    uint64_t cancelled; /* stream cancellations: a byte of the peer's costs us a search */
    char *instructions; /* to be sent on the encoder stream; from malloc, or NULL */
    size_t instructions_size;
    char partial[12]; /* an instruction of the peer's decoder stream that is not whole */
    uint8_t partial_size;
};

void qpack_encoder_init(struct qpack_encoder *encoder);
void qpack_encoder_free(struct qpack_encoder *encoder);
/* The peer's SETTINGS: how large its table may become. */
void qpack_encoder_allow(struct qpack_encoder *encoder, uint64_t capacity);
/* Bytes of the peer's decoder stream, in order. False: QPACK_DECODER_STREAM_ERROR. */
bool qpack_encoder_feed(struct qpack_encoder *encoder, struct str bytes);

/* A field section that is being written. */
struct qpack_writer {
    struct qpack_encoder *encoder;
    uint64_t stream;
    uint64_t required; /* 1 + the newest entry that it refers to; 0 = none */
    uint64_t lowest;   /* the oldest one; UINT64_MAX = none */
    char *room;
    char *at;
};

#define QPACK_PREFIX_ROOM 24 /* bytes that a section needs beside its fields */

/* Room for one field of a section. */
static inline size_t qpack_field_room(struct str name, struct str value)
{
    return name.len + value.len + 24;
}

/* Begins a section of a stream. The room is QPACK_PREFIX_ROOM, and qpack_field_room for each field.
 */
void qpack_begin(struct qpack_writer *writer, struct qpack_encoder *encoder, uint64_t stream,
                 char *room);
/* stays_out: the field is not worth an entry, or secret. */
void qpack_put_field(struct qpack_writer *writer, struct str name, struct str value,
                     bool stays_out);
/* Content-Length, which has no entry. */
void qpack_put_length(struct qpack_writer *writer, struct str digits);
void qpack_put_status(struct qpack_writer *writer, unsigned status);
/* The whole section, prefix and fields. */
struct str qpack_finish(struct qpack_writer *writer);

#endif
