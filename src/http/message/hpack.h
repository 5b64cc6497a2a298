/* HPACK (RFC 7541): encodes and decodes header blocks of HTTP/2. Pure functions on slices.
 * Implemented in hpack.c and huffman.c. */
#ifndef HTTP_MESSAGE_HPACK_H
#define HTTP_MESSAGE_HPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "http/message/fields.h"

#define HPACK_TABLE_DEFAULT 4096 /* in bytes, as RFC 7541 counts */

/* A dynamic table: entries in a ring, newest first. Its memory is freed by hpack_table_free. */
struct hpack_entry;
struct hpack_table {
    char *bytes;                 /* ring of names and values; NULL until the first insertion */
    size_t capacity;             /* size of `bytes` */
    size_t tail;                 /* offset of the next entry */
    struct hpack_entry *entries; /* a ring, by number */
    unsigned count;              /* entries in use */
    unsigned first; /* number of the newest entry, which is the number of insertions so far */
    unsigned slots; /* size of `entries`, a power of two */
    uint32_t *seek; /* encoder: numbers of entries by hash; or NULL */
    size_t size, max_size; /* as RFC 7541, 4.1 counts */
    size_t limit;          /* the peer may set max_size up to this */
    size_t least;          /* encoder: the smallest limit since the last block */
    bool has_new_limit;    /* encoder: to be announced at the beginning of the next block */
    bool is_in_block;      /* decoder: a field was decoded, so no size update may follow (4.2) */
    bool is_plain;         /* encoder: no Huffman code, if CPU time is more expensive than bytes */
    /* Decoder: accepts a whole byte of padding (5.2), for backends that send it. */
    bool takes_long_padding;
};
void hpack_table_init(struct hpack_table *table, size_t limit);
void hpack_table_free(struct hpack_table *table);

enum hpack_result {
    HPACK_FIELD, /* *field was decoded */
    HPACK_END,   /* the end of the block */
    HPACK_BAD,   /* COMPRESSION_ERROR: the connection must be closed (RFC 9113, 4.3) */
};

/* Decodes the next field of a complete block (HEADERS and its CONTINUATIONs joined). Strings longer
 * than max_string give HPACK_BAD. */
enum hpack_result hpack_decode(struct hpack_table *table, struct str *block, struct arena *arena,
                               size_t max_string, struct coded_field *field);

/* Encoding: these write to `at` and return the new end; they need hpack_field_room(name, value)
 * bytes. Names are written in lower case. */
static inline size_t hpack_field_room(struct str name, struct str value)
{
    return name.len + value.len + 24;
}
char *hpack_put_status(char *at, struct hpack_table *table, unsigned status);
/* How a field is encoded. */
struct hpack_form {
    uint8_t static_index; /* of the name in the static table, or 0 */
    bool stays_out;       /* do not add it to the table: rarely repeated, or secret */
};

char *hpack_put_field(char *at, struct hpack_table *table, struct hpack_form form, struct str name,
                      struct str value);
/* Writes a reference to the field inserted with this number (table->first after the insertion);
 * NULL: it was evicted. */
char *hpack_put_number(char *at, const struct hpack_table *table, unsigned number);
/* Applies the peer's SETTINGS_HEADER_TABLE_SIZE: announced at the beginning of the next block. */
void hpack_encoder_limit(struct hpack_table *table, uint32_t limit);
char *hpack_put_limit(char *at, struct hpack_table *table);

/* Huffman code (RFC 7541, 5.2), by tables. Decoding returns -1 if the input is malformed (EOS,
 * wrong padding) or `capacity` is too small. */
ptrdiff_t huffman_decode(struct str in, char *out, size_t capacity);
size_t huffman_size(struct str text); /* length of the encoded text */
char *huffman_encode(char *at, struct str text);

#endif
