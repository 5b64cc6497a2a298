/* The chunked transfer coding (RFC 9112, 7.1): a decoder on slices. */
#ifndef BASE_CHUNKED_H
#define BASE_CHUNKED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Most bytes of all chunk extensions of one body; extensions have no use, so a body with more is
   refused. */
#define CHUNK_EXTENSIONS_MAX 4096
/* Most bytes of the extensions of one chunk. */
#define CHUNK_EXTENSION_MAX 256

enum chunked_result {
    CHUNKED_MORE, /* all input was used and none of it is data */
    CHUNKED_DATA, /* *data is a part of the body, possibly up to the end of the input */
    CHUNKED_LAST, /* the line of the last chunk was read: trailers and an empty line follow, see
                     fields_parse */
    CHUNKED_BAD,  /* malformed, or a limit was exceeded */
};

/* All zero is the initial state. */
struct chunked {
    uint8_t state;
    uint8_t digits;      /* digits of the size so far */
    uint64_t left;       /* bytes of the current chunk that are still to come */
    uint32_t extension;  /* bytes of the current chunk's extension */
    uint32_t extensions; /* bytes of all extensions */
};

/* Consumes bytes of *input. Call it again until it gives MORE, LAST or BAD. */
enum chunked_result chunked_decode(struct chunked *chunked, struct str *input, struct str *data);

#endif
