/* chunks: the chunked coding of HTTP/1.1, as far as a load generator needs it. */

#ifndef BENCH_CHUNKS_H
#define BENCH_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where in a body the reading stands; all zero at its start. */
struct chunks {
    enum {
        CHUNKS_SIZE,    /* the digits of a size, or what follows them on their line */
        CHUNKS_DATA,    /* `left` bytes of a chunk */
        CHUNKS_AFTER,   /* the end of line after a chunk */
        CHUNKS_TRAILER, /* lines after the last chunk */
        CHUNKS_END,     /* the body is whole */
    } state;
    bool has_digits;  /* of the size; and of a trailer line: it is not empty */
    bool past_digits; /* extensions, until the end of the line */
    uint64_t left;    /* bytes of this chunk; while its size is read, what was read of it */
};

/* Reads as much of a body as is here. Adds the bytes of data to *body_bytes and gives the bytes
 * that were used, with the state CHUNKS_END when the body is whole; -1 for what is no chunked body.
 * RFC 9112, section 7.1. */
ptrdiff_t chunks_read(struct chunks *chunks, const char *data, size_t size, uint64_t *body_bytes);

#endif
