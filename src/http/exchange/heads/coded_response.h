/*
 * Responses of backends whose fields are coded one by one, by HTTP/2 and HTTP/3: heads and trailers
 * as they are decoded (RFC 9113, 8.3.2; RFC 9114, 4.3.2), what an exchange reads of them, and the
 * length of the body.
 */
#ifndef HTTP_EXCHANGE_HEADS_CODED_RESPONSE_H
#define HTTP_EXCHANGE_HEADS_CODED_RESPONSE_H

#include <stdbool.h>
#include <stdint.h>

#include "http/exchange/exchange.h"
#include "http/message/fields.h"

/* A head of a response that was decoded and not read yet; in the request's arena. */
struct coded_head {
    struct coded_head *next;
    struct fields fields;
    unsigned status;
    bool is_end; /* nothing follows */
};

/* A response. All zero: nothing has come. */
struct coded_response {
    struct coded_head *heads, *last_head; /* not read yet, oldest first */
    unsigned head_count;
    bool is_head;            /* the response has no body whatever it says */
    bool keeps_trailers;     /* they go to the client */
    bool has_final;          /* a head that is not interim was decoded */
    struct fields *trailers; /* or NULL */
    uint64_t given;          /* bytes of body that were read */
    uint64_t head_received;  /* attempt->bytes_received when the final head had come */
};

/* A field section that is being decoded. */
struct coded_section {
    struct exchange *x;
    struct fields *fields;   /* where they go; in the request's arena */
    struct coded_head *head; /* NULL: trailers */
    unsigned status;         /* 0 = not decoded yet */
    bool has_regular;        /* a field that is not :status came */
    size_t size;             /* bytes of names and values */
};

/* Begins one: the next head, or trailers. is_end: nothing follows. False: trailers that are not the
 * end; logged. */
bool coded_section_begin(struct coded_section *section, struct exchange *x,
                         const struct coded_response *response, bool is_end);
/* A field. False: the response is malformed; logged. */
bool coded_section_take(struct coded_section *section, const struct coded_field *field);
/* The section is whole. False: the same. */
bool coded_section_end(struct coded_section *section, struct coded_response *response, bool is_end);

/* ---- for struct protocol ---- */

/* The next head. is_input_ended: nothing more comes. */
enum head_result coded_response_head(struct exchange *x, struct coded_response *response,
                                     bool is_input_ended, enum http_version version);
/* Bytes of the body go on. BODY_DATA, or BODY_BAD where these are more than was announced. */
enum body_result coded_response_data(struct exchange *x, struct coded_response *response,
                                     size_t size);
/* The response has ended, and all of it was read. BODY_END, or BODY_BAD. */
enum body_result coded_response_finish(struct exchange *x, const struct coded_response *response);

#endif
