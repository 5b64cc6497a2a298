/* HPACK (RFC 7541): header blocks of HTTP/2, both ways. Pure functions on slices; Huffman by table.
 * Implemented in hpack.c and huffman.c. */
#ifndef HTTP_MESSAGE_HPACK_H
#define HTTP_MESSAGE_HPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "http/message/fields.h"

#define HPACK_TABLE_DEFAULT 4096 /* bytes, as RFC 7541 counts them */

/* A dynamic table: entries in a ring, newest first. Memory of its own, freed by hpack_table_free.
 */
struct hpack_entry;
struct hpack_table {
    char *bytes;                 /* ring of names and values; NULL until something is inserted */
    size_t capacity;             /* bytes of the ring */
    size_t tail;                 /* where the next entry's bytes go */
    struct hpack_entry *entries; /* ring, by number */
    unsigned count;              /* entries in use */
    unsigned first;              /* number of the newest entry: as many were inserted ever */
    unsigned room;               /* of entries, a power of two */
    uint32_t *seek;              /* encoder: numbers of entries by hash; or NULL */
    size_t size, max_size;       /* as RFC 7541, 4.1 counts */
    size_t limit;                /* max_size may be set up to this by the peer */
    size_t least;                /* encoder: the smallest limit since the last block */
    bool has_new_limit;          /* encoder: it has to be said at the start of the next block */
    bool is_in_block;            /* decoder: a field was read, no more updates may come (4.2) */
    bool is_plain;           /* encoder: no Huffman, where bytes are cheaper than instructions */
    bool takes_long_padding; /* decoder: a whole byte of padding is let pass, too (5.2): for
                                    backends, who are not there to be tested */
};
void hpack_table_init(struct hpack_table *table, size_t limit);
void hpack_table_free(struct hpack_table *table);

enum hpack_result {
    HPACK_FIELD, /* *field was decoded */
    HPACK_END,   /* the block is used up */
    HPACK_BAD,   /* COMPRESSION_ERROR: the connection ends (RFC 9113, 4.3) */
};

/* The next field of a block that is whole (HEADERS and its CONTINUATIONs joined). Sizes above
 * max_string are HPACK_BAD. */
enum hpack_result hpack_decode(struct hpack_table *table, struct str *block, struct arena *arena,
                               size_t max_string, struct coded_field *field);

/* The encoder: writes at the end of a room and gives the new end; room is at least
 * hpack_field_room(name, value). Names are written in lower case. */
static inline size_t hpack_field_room(struct str name, struct str value)
{
    return name.len + value.len + 24;
}
char *hpack_put_status(char *at, struct hpack_table *table, unsigned status);
/* How a field is encoded. */
struct hpack_form {
    uint8_t static_index; /* of the name in the static table, or 0 */
    bool stays_out; /* it is not worth a place in the table: seldom the same twice, or secret */
};

char *hpack_put_field(char *at, struct hpack_table *table, struct hpack_form form, struct str name,
                      struct str value);
/* The whole field that was inserted as this number (table->first after it was); NULL: it is gone.
 */
char *hpack_put_number(char *at, const struct hpack_table *table, unsigned number);
/* A new limit by the peer's SETTINGS_HEADER_TABLE_SIZE: said at the start of the next block. */
void hpack_encoder_limit(struct hpack_table *table, uint32_t limit);
char *hpack_put_limit(char *at, struct hpack_table *table);

/* Huffman (RFC 7541, 5.2): by table, a byte at a time. Decoding gives -1 when it is malformed (EOS,
 * bad padding) or room is too small. */
ptrdiff_t huffman_decode(struct str in, char *out, size_t room);
size_t huffman_size(struct str text); /* bytes when encoded */
char *huffman_encode(char *at, struct str text);

#endif
