/*
 * Heads and trailers of requests that come as fields on a stream (RFC 9113, 8.2 and 8.3; RFC
 * 9114, 4.2 and 4.3): what they may be, and what they say. Knows neither frames nor the compression
 * of fields. HTTP/2 and HTTP/3 hand in one field after the other, then ask for the whole.
 * Implemented in stream_head.c and stream_fields.c.
 */
#ifndef HTTP_REQUEST_STREAM_HEAD_H
#define HTTP_REQUEST_STREAM_HEAD_H

#include "http/request/from_head.h"

enum pseudo {
    PSEUDO_NONE, /* none that is known */
    PSEUDO_METHOD,
    PSEUDO_SCHEME,
    PSEUDO_PATH,
    PSEUDO_AUTHORITY,
    PSEUDO_PROTOCOL,
    PSEUDO_COUNT
};

/*
 * What is known of a field's name without a look at it, where a static table of the protocol has it
 * as a sound one: enum field_id, or which pseudo-field it is.
 */
typedef uint8_t stream_name;
#define STREAM_PSEUDO(which) (0x80 | (which))
#define STREAM_NAME_UNKNOWN 0xff

#define STREAM_VERSION_SIZE 8

/* A head on its way to a request. */
struct stream_head {
    struct request *request;
    struct fields *fields; /* where they go: request->headers; of trailers their own */
    const struct head_limits *limits;
    struct known_host *known_host; /* of the connection; not of trailers */
    const char
        *version;    /* of STREAM_VERSION_SIZE bytes, that the request line shows: \"HTTP/2.0\" */
    bool is_trailer; /* no pseudo-fields at all */

    struct str pseudo[PSEUDO_COUNT];
    bool has[PSEUDO_COUNT];
    struct str priority; /* value of the field (RFC 9218); or NULL */
    bool has_regular;    /* a field that is no pseudo-field came: they come no more */
    bool
        is_upgrade; /* extended CONNECT (RFC 8441, 9220): the request was made a GET with Upgrade */
    uint32_t count; /* fields */
    uint32_t regulars; /* fields that are no pseudo-fields */
    uint32_t cookies;
    size_t size;     /* bytes of names and values */
    unsigned status; /* to refuse the request with; 0 = none. 400: it is malformed, which is an
                        error of the stream, too */
    struct str name, value; /* of the field that was wrong; or a text, and NULL */
    const char *reason;
};

/* Notes what is wrong, if it is the first thing: the rest is taken all the same, for the sake of
 * compression. field may be NULL. */
__attribute__((cold, noinline)) void stream_head_refuse(struct stream_head *head, unsigned status,
                                                        const char *reason,
                                                        const struct coded_field *field);
/* The same with 400, for a text that is no field. */
__attribute__((cold, noinline)) void stream_head_refuse_text(struct stream_head *head,
                                                             const char *reason, struct str text);
/* The next field. */
void stream_head_take(struct stream_head *head, const struct coded_field *field, stream_name name);

/* What fields count when they are unpacked; beyond so many times the limit of a head they are a
 * bomb, and the connection ends. */
#define STREAM_HEAD_EXPANSION_MAX 4
static inline size_t stream_head_unpacked(const struct stream_head *head)
{
    return head->size + head->count * 32u;
}

/* What they all say of the request: method, server, target, length. is_last: no body follows. */
void stream_head_set_up(struct stream_head *head, bool is_last);
/* The log line of what is wrong, and its counter. */
void stream_head_log(const struct stream_head *head);

#endif
