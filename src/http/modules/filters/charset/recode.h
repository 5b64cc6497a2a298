/* Text in one charset made to text in another: tables, and recoding piece by piece. */
#ifndef HTTP_MODULES_FILTERS_CHARSET_RECODE_H
#define HTTP_MODULES_FILTERS_CHARSET_RECODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"

enum recode_kind {
    RECODE_BYTES,     /* a byte for a byte */
    RECODE_TO_UTF8,   /* a code point for a byte */
    RECODE_FROM_UTF8, /* a byte for a code point, or a reference such as &#8364; */
};

/* A code point as UTF-8 (RFC 3629). */
struct utf8_char {
    unsigned char len;
    char text[4];
};

/* The bytes of 256 code points; 0 = it has none. */
struct utf8_page {
    unsigned char bytes[256];
};

/* Code points that have a byte. */
struct utf8_pages {
    uint16_t numbers[0x1100]; /* by the code point's upper bits: number of its page; 0 is empty */
    struct vec pages;         /* struct utf8_page */
};

/* How text in one charset becomes text in another. */
struct recode_table {
    enum recode_kind kind;
    bool keeps_ascii; /* text of ASCII stays as it is */
    union {
        unsigned char bytes[256];    /* RECODE_BYTES */
        struct utf8_char chars[256]; /* RECODE_TO_UTF8 */
        struct utf8_pages *pages;    /* RECODE_FROM_UTF8 */
    };
};

/* A table that keeps ASCII and makes '?' of all else (of UTF-8: references). */
struct recode_table *recode_table_new(struct arena *arena, enum recode_kind kind);
void recode_set_byte(struct recode_table *table, unsigned char from, unsigned char to);
/* Of one charset with bytes and UTF-8: the tables of both ways. */
void recode_set_char(struct recode_table *to_utf8, struct recode_table *from_utf8,
                     struct arena *arena, unsigned char byte, uint32_t code_point);

/* One text that is recoded. Zeroed, but for the table, is its beginning. */
struct recoder {
    const struct recode_table *table;
    unsigned char held[4]; /* the beginning of a sequence that the last piece ended in */
    unsigned held_len;     /* bytes, below 4 */
};

#define RECODE_STEP 16 /* bytes of room that are needed to get on */

/*
 * Recodes from *in, which is moved on, as long as there is room. True: it is used up. UTF-8 that is
 * malformed is '?' as in nginx (one for a whole sequence that is too long or too high; nothing for
 * one that the text ends in), but a byte of ASCII after its beginning is never taken along. False:
 * there is more to be done with new room, of RECODE_STEP bytes at least. `is_last`: nothing follows
 * *in.
 */
bool recode(struct recoder *recoder, struct str *in, bool is_last, struct writer *out);

/* Would the piece come out as it is? */
bool recode_is_needless(const struct recoder *recoder, struct str piece);

/*
 * The code point at the beginning of the bytes, and the length of its sequence (RFC 3629, 4). 0:
 * the sequence may be complete with more bytes. Negative: malformed; so many bytes, negated, belong
 * together.
 */
int utf8_decode(const unsigned char *at, size_t len, uint32_t *code_point);

#endif
