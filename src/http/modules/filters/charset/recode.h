/* Converts text from one charset to another: tables, and conversion piece by piece. */
#ifndef HTTP_MODULES_FILTERS_CHARSET_RECODE_H
#define HTTP_MODULES_FILTERS_CHARSET_RECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

enum recode_kind {
    RECODE_BYTES,     /* one byte to one byte */
    RECODE_TO_UTF8,   /* one byte to a code point */
    RECODE_FROM_UTF8, /* a code point to one byte, or to a reference such as &#8364; */
};

/* A code point as UTF-8 (RFC 3629). */
struct utf8_char {
    unsigned char len;
    char text[4];
};

/* The bytes of 256 code points; 0 = no byte. */
struct utf8_page {
    unsigned char bytes[256];
};

/* Code points that have a byte. */
struct utf8_pages {
    uint16_t numbers[0x1100]; /* page number by the upper bits of the code point; page 0 is empty */
    struct vec pages;         /* struct utf8_page */
};

/* A conversion from one charset to another. */
struct recode_table {
    enum recode_kind kind;
    bool keeps_ascii; /* ASCII text stays as it is */
    union {
        unsigned char bytes[256];    /* RECODE_BYTES */
        struct utf8_char chars[256]; /* RECODE_TO_UTF8 */
        struct utf8_pages *pages;    /* RECODE_FROM_UTF8 */
    };
};

/* Makes a table that keeps ASCII and maps everything else to '?', or from UTF-8 to references. */
struct recode_table *recode_table_new(struct arena *arena, enum recode_kind kind);
void recode_set_byte(struct recode_table *table, unsigned char from, unsigned char to);
/* Adds a pair to both tables between a single-byte charset and UTF-8. */
void recode_set_char(struct recode_table *to_utf8, struct recode_table *from_utf8,
                     struct arena *arena, unsigned char byte, uint32_t code_point);

/* The state of a conversion. Initially zero, except for the table. */
struct recoder {
    const struct recode_table *table;
    unsigned char held[4]; /* an incomplete sequence at the end of the last piece */
    unsigned held_len;     /* bytes in it, at most 3 */
};

#define RECODE_STEP 16 /* free bytes that one step may need */

/* Converts *in, which is advanced, as long as the output has space. True: all of *in was converted.
 * False: call again with at least RECODE_STEP bytes of space. `is_last`: nothing follows *in.
 * Malformed UTF-8 becomes '?' as in nginx (one for a whole sequence that is too long or too high;
 * nothing for an incomplete one at the end of the text), but an ASCII byte is never swallowed with
 * it. */
bool recode(struct recoder *recoder, struct str *in, bool is_last, struct writer *out);

/* Would the conversion leave this piece unchanged? */
bool recode_is_needless(const struct recoder *recoder, struct str piece);

/* Decodes the code point at the beginning of the bytes and gives the length of its sequence (RFC
 * 3629, 4). 0: the sequence is incomplete. Negative: it is malformed, and its length is the negated
 * value. */
int utf8_decode(const unsigned char *at, size_t len, uint32_t *code_point);

#endif
