/* The parser of HTTP/1 request heads (RFC 9112): strict, on a slice with an end, without state. */
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
    PARSE_MORE, /* the head is not whole yet; nothing is wrong so far */
    PARSE_DONE,
    PARSE_BAD, /* status and reason tell why */
};

#define DROPPED_LINES_MAX 4 /* lines of one head that are kept for the log */

/* A request head as it stands in the input; slices of it. */
struct head {
    struct str line; /* request line without its end */
    struct str method;
    struct str target;    /* as received */
    struct str scheme;    /* of an absolute-form target, else empty */
    struct str authority; /* host[:port] of an absolute-form or authority-form target */
    struct str
        path; /* origin-form part of the target: from the first '/'; empty for "http://host" */
    unsigned version; /* 9, 10, 11 (1.2 and later count as 11) */
    bool is_line_done;
    uint32_t size; /* bytes of the head with its last empty line; of a bad one, of its good lines */
    uint32_t end; /* the same with empty lines before it: where the next bytes begin (PARSE_DONE) */
    unsigned status;    /* PARSE_BAD: 400, 405, 414, 494, 505 */
    const char *reason; /* for the log: "client sent invalid method" */
    struct str culprit; /* the bytes that the log shows after the reason, or empty */
    bool has_bad_byte;  /* the log shows the byte after them, at which parsing failed */
    unsigned char bad_byte;
    unsigned headers;                            /* lines seen */
    struct head_scan scan;                       /* PARSE_MORE: how far it was looked at */
    unsigned dropped;                            /* invalid ones that were dropped */
    struct str dropped_lines[DROPPED_LINES_MAX]; /* the first of them, for the log */
};

struct repeated;

/* How header lines are read, and where they go. */
struct field_reading {
    const struct head_limits *limits;
    struct arena *arena;     /* memory of the fields */
    struct fields *fields;   /* fresh */
    struct repeated *repeat; /* the block of a former head, or NULL: saves the parsing of one that
                                equals it, and else becomes this one */
    uint32_t taken; /* bytes before them that count against limits->head_max; 0 to begin with */
};

/*
 * Parses from the first byte of input. Call again with more input and fresh fields after
 * PARSE_MORE, but not before head_wants_parsing says so.
 */
enum parse_result head_parse(struct str input, const struct field_reading *reading,
                             struct head *head);

/*
 * After PARSE_MORE, with more input: is the head whole now, or wrong? Looks at each byte once,
 * whatever the pieces are in which they come, and takes no memory.
 */
bool head_wants_parsing(struct head_scan *scan, struct str input, const struct head_limits *limits);

/* Header lines up to the empty line, as they also stand after a chunked body (trailers). used gets
 * their size. */
enum parse_result fields_parse(struct str input, const struct field_reading *reading,
                               struct head *head, uint32_t *used);

/*
 * The same for lines that come in parts: called with all of them from the first on, and again with
 * more after PARSE_MORE. They are parsed when they are whole (and as they come first); in between
 * only new bytes are looked at. What is wrong is reported at the same byte however they come. The
 * fields are emptied, their room is used again; they hold only what PARSE_DONE leaves there.
 */
enum parse_result fields_parse_parts(struct fields_scan *scan, struct str input,
                                     const struct field_reading *reading, struct head *head,
                                     uint32_t *used);

/* A Content-Length value: digits alone that fit in 63 bits. */
bool content_length_parse(struct str value, int64_t *out);

/* Splits and checks "host[:port]" (RFC 3986, 3.2.2): host in lower case goes to `room` (host.len
 * bytes) unless it is lower case already. False: invalid. */
bool authority_parse(struct arena *arena, struct str authority, struct str *host, struct str *port);

#endif
