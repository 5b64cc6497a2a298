/* Requests to backends whose fields are coded one by one, by HTTP/2 and HTTP/3: which fields there
 * are. */
#ifndef HTTP_EXCHANGE_HEADS_CODED_REQUEST_H
#define HTTP_EXCHANGE_HEADS_CODED_REQUEST_H

#include <stdbool.h>

#include "http/exchange/exchange.h"
#include "http/exchange/heads/request_head.h"

/* What a module says of a request. */
struct coded_request {
    struct str method, path;
    struct str announcement; /* HTTP/2: goes before the preface of a fresh connection: a PROXY
                                header; or empty */
    bool is_https;
    bool accepts_trailers; /* `TE: trailers` is sent where the client accepts them, too */
    bool keeps_trailers;   /* the response's trailers go to the client */
    bool is_alone;         /* the connection carries this request and no other */
};

/* The fields that follow the pseudo-fields, one after the other. */
struct coded_request_fields {
    struct str rest;   /* lines of the head that are left */
    bool has_own_host; /* by *_set_header: there is no :authority */
    bool adds_te;      /* `te: trailers` comes first */
};

/* Lays the fields out; they live in the request's arena. Gives the bytes that lines of them have,
 * and their number. */
size_t coded_request_begin(struct exchange *x, const struct coded_request *request,
                           struct head_draft *draft, struct coded_request_fields *fields,
                           size_t *count);
/* The next one, its name as it was written. False: there is no more. Those of a connection alone
 * are left out (RFC 9113, 8.2.2). */
bool coded_request_next(struct coded_request_fields *fields, enum field_id *id, struct str *name,
                        struct str *value);

/* Does the client take trailers (RFC 9110, 10.1.4)? */
bool client_takes_trailers(const struct request *request);

#endif
