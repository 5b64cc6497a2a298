/* Responses: what a request is answered with. */
#ifndef HTTP_REQUEST_RESPONSE_H
#define HTTP_REQUEST_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/str.h"
#include "http/message/fields.h"
#include "http/message/handler_result.h"

struct body_filter;
struct content_coding;
struct request;

/* A piece of a response body. Memory stays valid until it was sent, when release is called, or is
 * copied at once (is_volatile). */
struct body_piece {
    struct str bytes; /* of a memory piece */
    int fd;           /* of a file piece: bytes.data is NULL; else -1 */
    off_t offset;     /* of the file piece in it */
    uint64_t size;    /* bytes of the file piece */
    bool is_volatile; /* bytes are copied: the memory is reused after the call */
    bool is_flush; /* what was given so far shall leave now (a streaming handler waits for more); on
                      a piece without bytes a compressor, too, lets go what it holds */
    void (*release)(void *arg); /* or NULL */
    void *release_arg;          /* given to release */
};

/* Where a backend's fields stand in the head that the client gets: its order is kept. */
struct field_order {
    uint32_t etag_position; /* so many of fields stand before the ETag, where a backend gave it */
    uint32_t modified_position; /* number of fields before last_modified, where it is late */
    uint64_t left_out; /* FIELD_BIT of Date and Server: a backend's affair, none is added */
    unsigned is_location_late : 1; /* it was written whole: sent after Connection, as nginx does */
    unsigned is_modified_late : 1; /* a backend said last_modified: the same */
    unsigned is_etag_first : 1;    /* where both have one place: the ETag is before last_modified */
    unsigned has_early_field : 1;  /* one of fields is_early */
};

/* A head that a header filter has wait for the body. */
struct head_hold {
    void (**filters_left)(
        struct request *request); /* header filters that follow the one which holds */
    unsigned refusal;             /* status of what takes its place, since it was withdrawn */
    unsigned is_held : 1;         /* it waits */
    unsigned is_header_only : 1;  /* response.is_header_only was set when that began */
};

/* Which part of the body the client gets. */
struct body_range {
    uint64_t body_offset;    /* where the first piece that is given stands in the body; not 0 with
                                slices only, which may set it    when the head was made */
    uint64_t start;          /* of the one range that is cut out of the body, when the head is */
    uint64_t end;            /* end of that range; 0 = there is none */
    unsigned is_allowed : 1; /* a handler that can serve ranges of this body sets it */
    unsigned is_single : 1;  /* several ranges at once are not served: the body may be long, and its
                                pieces come one after the other */
};

/* How much of a response was given to the wire. */
enum response_progress {
    RESPONSE_NOT_SENT,  /* nothing: all of it can change */
    RESPONSE_HEAD_SENT, /* the client may have seen the head: nothing of that can change */
    RESPONSE_COMPLETE,  /* the last piece, too */
};

/* Where what follows the head ends. */
enum response_framing {
    FRAMING_PLAIN,   /* by its length, the end of the connection, or what HTTP/2 and HTTP/3 have */
    FRAMING_CHUNKED, /* set by HTTP/1 as the head is written */
    FRAMING_TUNNEL,  /* bytes both ways, no body (101, CONNECT) */
};

struct response {
    unsigned status;        /* 0 until somebody decides */
    unsigned error_status;  /* what an error page is shown for; for $status of the log when it was
                               not overwritten */
    struct str reason;      /* of a status line that a backend sent; empty = the standard phrase */
    int64_t content_length; /* bytes; -1 = not known */
    time_t last_modified;   /* -1 = none */
    struct str last_modified_text; /* the same as an HTTP date, when it is laid out already; else
                                      empty: who changes the one clears the other */
    struct str content_type;       /* without charset; empty = no field */
    struct str charset;            /* added as "; charset=" */
    struct str wanted_charset;     /* X-Accel-Charset of a backend: what the client shall get */
    struct str etag;               /* with quotes; empty = none */
    struct str location;           /* of a redirect, before it is made absolute */
    struct str
        raw_head; /* what HTTP/1 sends instead of a head of its own, byte for byte; or empty */
    struct fields fields;    /* all others, in order */
    struct fields *trailers; /* or NULL */
    struct field_order order;
    struct head_hold hold;
    struct body_range range;
    const struct content_coding *coding; /* that the body gets on its way; see codings/choice.h */
    struct str whole; /* the whole body, when a handler has it in memory; see response_memory */
    struct body_filter *filters; /* first body filter, or NULL: pieces go to the wire */
    uint64_t body_given; /* bytes of it that went to the wire, where its length was announced */
    enum response_progress progress;
    enum response_framing framing;
    unsigned is_length_set : 1; /* a script or more_set_headers has said content_length: the body is
                                   cut to it */
    unsigned lacks_body : 1; /* its head was that of an answer to HEAD: the length means nothing */
    unsigned lacks_end : 1;  /* a filter has let all of it through but its end: it is cut there */
    unsigned is_broken : 1;  /* a part of the body is gone: see response_break */
    unsigned is_header_only : 1;   /* HEAD, 204, 304: no body follows */
    unsigned is_unconditional : 1; /* a backend has acted: If-Match and similar fields are not
                                      judged again */
    unsigned is_error_page : 1;    /* an error page is being made: no second one unless recursive */
    unsigned is_built_in : 1;      /* the server's own page for a failure or a redirect */
    unsigned is_coded_file : 1; /* a file that has a content coding: parts of it are not served */
    unsigned is_coding_chosen : 1; /* coding holds; NULL then means none */
    unsigned keeps_coding : 1;     /* a backend said no-transform: nothing is encoded or decoded */
    unsigned is_of_subrequest : 1; /* the piece that goes through the filters comes from a
                                      subrequest, and its filters */
    unsigned keeps_head : 1; /* a header filter has made this very head of a failure: no page takes
                                its place */
    unsigned is_dropped : 1; /* a header filter has the client dropped: nothing is answered */
    unsigned reads_offloaded : 1; /* its files are on storage that may be slow: threads read them,
                                     whatever `aio` says */
    unsigned needs_memory : 1;    /* a body filter needs bytes, not pieces of files: they are read
                                     before it (copy_filter.c) */
};

/* Is last_modified sent? Not where a field of that name is among the others, which a script has
 * set. */
static inline bool response_tells_modified(const struct response *response)
{
    return response->last_modified != -1 &&
           fields_get(&response->fields, FIELD_LAST_MODIFIED) == NULL;
}

/* ---- what handlers do with it (response.c, error_page.c) ---- */

/* Runs the header filters, sends the head. HANDLER_DONE when no body follows (HEAD, 304 …),
 * HANDLER_NEXT: send the body; HANDLER_FAIL/HANDLER_CLOSED. */
enum handler_result response_start(struct request *request);
/* Body pieces, through the filters. MAY WAIT. False: the client is gone. */
bool response_send(struct request *request, const struct body_piece *piece, bool is_last);
/*
 * A header filter that makes the head of what is in the body (its length, a failure) holds the head
 * back, of HEAD, too: the handler gives the body all the same. When it has seen enough its body
 * filter calls response_resume, which runs the filters after it and sends the head: HANDLER_NEXT,
 * the body may follow; HANDLER_DONE, none does; else give false. Or response_withdraw, before the
 * last piece has passed: the handler ends.
 */
void response_hold(struct request *request);
enum handler_result response_resume(struct request *request);
/*
 * For filters, as long as the head was not sent: nothing of the response goes out; a failure of
 * this status, or a redirect to `location`, takes its place. Gives false, as a body filter does
 * then.
 */
bool response_withdraw(struct request *request, unsigned status, struct str location);
/* A whole response of one memory piece (not volatile). The usual end of a small handler. */
enum handler_result response_memory(struct request *request, unsigned status,
                                    struct str content_type, struct str body);
/* The same of a text that a page was gathered in; frees it. */
struct buf;
enum handler_result response_gathered(struct request *request, unsigned status,
                                      struct str content_type, struct buf *text);
/*
 * A body that is made piece by piece (produced.c). make appends some more of it, perhaps nothing,
 * and may wait; others get their turn between two calls. False: that was all.
 */
struct body_maker {
    bool (*make)(void *arg, struct buf *out);
    void *arg;
    const bool *is_broken; /* make has set it: the body cannot be completed, and is cut, or 500 is
                            * the answer. NULL: that does not happen */
};
/* The body of a response whose head was sent: response_start gave HANDLER_NEXT. MAY WAIT. */
enum handler_result response_produce(struct request *request, const struct body_maker *maker);
/* The body, or a part of it, which more follows. MAY WAIT. False: the client is gone. */
bool response_produce_part(struct request *request, const struct body_maker *maker);
/* The whole response; its length is announced when all of it is one piece. MAY WAIT. */
enum handler_result response_produced(struct request *request, unsigned status,
                                      struct str content_type, const struct body_maker *maker);
/* A redirect of the client: 301, 302, 303, 307, 308 with Location (relative ones are made absolute
 * as configured). */
enum handler_result response_redirect(struct request *request, unsigned status,
                                      struct str location);
/* For header filters: another Location, which is made absolute after them as configured; empty =
 * none. */
void response_set_location(struct request *request, struct str location);
/* Location as the client gets it, in the request's arena: "/path" as "http://host:port/path" unless
 * absolute_redirect is off. */
struct str response_sent_location(struct request *request);
/* What HANDLER_FAIL leads to: error_page of the location, else the built-in page (special pages).
 */
enum handler_result response_error(struct request *request);
/*
 * The built-in page for a request that is not worked on: without filters, and without waiting, so
 * that it can be called on the loop's stack. Over HTTP/2 without a page.
 */
void response_refuse(struct request *request, unsigned status);
/* Has this place an error_page for the status that may be shown now? */
bool response_has_page(const struct request *request, unsigned status);
/* The media type of files with this extension, by types and default_type at the place of the
 * request. */
struct str response_type_of(const struct request *request, struct str extension);
/* Sets content_type to that of the URI's extension. */
void response_set_type(struct request *request);
/*
 * A filter makes another body of it: its length is not announced any more, and no ranges of it are
 * served. The validators stay, the ETag as a weak one (RFC 9110, 8.8.1), or both are left out.
 */
void response_change_body(struct request *request, bool keeps_validators);

#endif
