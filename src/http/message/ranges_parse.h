/* Byte ranges of a request (RFC 9110, 14.1.2): the parser, independent of requests for tests and
 * fuzzing. */
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
    RANGES_SOME,  /* some ranges can be served */
    RANGES_WHOLE, /* respond with the whole body: ranges are not worth it, or too many */
    RANGES_NONE,  /* 416: malformed, or all are after the end */
};

/* Parses the text after "bytes=" for a body of `size` bytes into a vec of struct byte_range. At
 * most `most` ranges, which together have no more bytes than the body; otherwise RANGES_WHOLE.
 * Ranges after the end are omitted. */
enum ranges_result ranges_parse(struct str text, uint64_t size, uint64_t most, struct arena *arena,
                                struct vec *out);

#endif
