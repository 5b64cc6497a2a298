/* Limits of a message header, or of trailers. */
#ifndef HTTP_MESSAGE_HEAD_LIMITS_H
#define HTTP_MESSAGE_HEAD_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

/* The limits of a server; derived from large_client_header_buffers, max_headers and related
 * directives. */
struct head_limits {
    uint32_t line_max;       /* bytes of the request line, or of one header line */
    uint32_t head_max;       /* bytes of the whole header */
    uint32_t headers_max;    /* number of header lines */
    bool ignore_invalid;     /* fields with invalid names are dropped */
    bool underscores;        /* '_' is valid in names */
    bool skips_status_lines; /* lines that begin with "HTTP/" are ignored */
    bool wants_crlf;         /* a bare LF does not end a line: in a chunked body (RFC 9112, 7.1) */
};

#endif
