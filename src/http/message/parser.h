/* The parser for HTTP/1 request headers (RFC 9112): strict, on a slice, without state. */
#ifndef HTTP_MESSAGE_PARSER_H
#define HTTP_MESSAGE_PARSER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "http/message/head_limits.h"
#include "http/message/head_scan.h"

struct arena;
struct fields;

enum parse_result {
    PARSE_MORE, /* the header is incomplete; valid so far */
    PARSE_DONE,
    PARSE_BAD, /* see `status` and `reason` */
};

#define DROPPED_LINES_MAX 4 /* dropped lines of a header that are kept for the log */

/* A request header in the input; its members are slices of the input. */
struct head {
    struct str line; /* request line without the line end */
    struct str method;
    struct str target;    /* as received */
    struct str scheme;    /* of an absolute-form target, else empty */
    struct str authority; /* host[:port] of an absolute-form or authority-form target */
    /* Origin-form part of the target: from the first '/'; empty for "http://host". */
    struct str path;
    unsigned version; /* 9, 10, 11 (1.2 and later become 11) */
    bool is_line_done;
    uint32_t
        size; /* bytes of the header with its empty line; of a malformed one, of its valid lines */
    uint32_t
        end; /* the same including empty lines before it: offset after the header (PARSE_DONE) */
    unsigned status;    /* PARSE_BAD: 400, 405, 414, 494, 505 */
    const char *reason; /* for the log: "client sent invalid method" */
    struct str culprit; /* bytes that are logged after the reason, or empty */
    bool has_bad_byte;  /* the next byte, at which parsing failed, is logged as well */
    unsigned char bad_byte;
    unsigned headers;                            /* number of lines */
    struct head_scan scan;                       /* PARSE_MORE: how far it was examined */
    unsigned dropped;                            /* number of invalid lines that were dropped */
    struct str dropped_lines[DROPPED_LINES_MAX]; /* the first of these, for the log */
};

struct repeated;

/* Parameters of parsing header lines. */
struct field_reading {
    const struct head_limits *limits;
    struct arena *arena;   /* for the fields */
    struct fields *fields; /* output, initially empty */
    /* The header block of an earlier request, or NULL: an equal one need not be parsed, another one
     * replaces it. */
    struct repeated *repeat;
    uint32_t taken; /* bytes before the lines that count towards limits->head_max; initially 0 */
};

/* Parses from the first byte of input. After PARSE_MORE, call it again with more input and empty
 * fields, but only after head_wants_parsing returns true. */
enum parse_result head_parse(struct str input, const struct field_reading *reading,
                             struct head *head);

/* After PARSE_MORE, with more input: is the header now complete, or malformed? Examines each byte
 * once, however the input is split, and allocates no memory. */
bool head_wants_parsing(struct head_scan *scan, struct str input, const struct head_limits *limits);

/* Parses header lines up to the empty line; also used for the trailers of a chunked body. *used is
 * their size. */
enum parse_result fields_parse(struct str input, const struct field_reading *reading,
                               struct head *head, uint32_t *used);

/* The same for lines that arrive in pieces: called with all of them from the first on, and again
 * with more after PARSE_MORE. They are parsed when they are complete (and at the first call); in
 * between only new bytes are examined. Errors are reported at the same byte however the input is
 * split. The fields are emptied and their memory is reused; they are valid only after
 * PARSE_DONE. */
enum parse_result fields_parse_parts(struct fields_scan *scan, struct str input,
                                     const struct field_reading *reading, struct head *head,
                                     uint32_t *used);

/* Parses a Content-Length: only digits, at most 63 bits. */
bool content_length_parse(struct str value, int64_t *out);

/* Splits and checks "host[:port]" (RFC 3986, 3.2.2). The host is converted to lower case, in the
 * arena if necessary. False: invalid. */
bool authority_parse(struct arena *arena, struct str authority, struct str *host, struct str *port);

#endif
