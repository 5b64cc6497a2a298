/* What a peer may send as a request head, or as trailers. */
#ifndef HTTP_MESSAGE_HEAD_LIMITS_H
#define HTTP_MESSAGE_HEAD_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* Of a server; derived from large_client_header_buffers, max_headers and their like. */
struct head_limits {
    uint32_t line_max;    /* bytes of the request line, or of one header line */
    uint32_t head_max;    /* bytes of all */
    uint32_t headers_max; /* header lines */
    bool ignore_invalid;  /* names with odd characters are dropped, not kept */
    bool underscores;     /* '_' is a usual character of names */
    bool
        skips_status_lines; /* a line that begins with "HTTP/" is none of the fields, and ignored */
    bool wants_crlf;        /* a bare LF ends no line: lines of a chunked body (RFC 9112, 7.1) */
};

#endif
