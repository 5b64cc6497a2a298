/* Byte ranges of a request (RFC 9110, 14.1.2): the parser, apart from requests so that it can be
 * tested and fuzzed. */
#ifndef HTTP_MESSAGE_RANGES_PARSE_H
#define HTTP_MESSAGE_RANGES_PARSE_H

#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* Bytes [start, end) of a body. */
struct byte_range {
    uint64_t start;
    uint64_t end;
};

enum ranges_result {
    RANGES_SOME,  /* there are ranges that the body has */
    RANGES_WHOLE, /* answer with the whole body: not worth it, or too many */
    RANGES_NONE,  /* 416: not valid, or all lie after the end */
};

/*
 * Parses what follows "bytes=" for a body of `size` bytes into a vec of struct byte_range. At most
 * `most` ranges, which together hold no more bytes than the body; beyond that: RANGES_WHOLE. Ranges
 * after the end are left out.
 */
enum ranges_result ranges_parse(struct str text, uint64_t size, uint64_t most, struct arena *arena,
                                struct vec *out);

#endif
