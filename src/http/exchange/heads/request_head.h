/* Heads of requests to HTTP servers: what *_set_header and the client's fields make of them. */
#ifndef HTTP_EXCHANGE_HEADS_REQUEST_HEAD_H
#define HTTP_EXCHANGE_HEADS_REQUEST_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/template.h"
#include "http/exchange/exchange.h"

/* One line of a request's head. */
struct head_part {
    enum {
        HEAD_TEXT,    /* laid out when the configuration was read */
        HEAD_LINE,    /* a name, and a value that may be empty: then there is no line */
        HEAD_HOST,    /* Host: the value, or the target's host where it is empty */
        HEAD_FRAMING, /* Content-Length or Transfer-Encoding, as the body has it */
    } kind;
    bool is_connection;           /* HEAD_LINE: its name is Connection */
    struct str text;              /* HEAD_TEXT: lines; HEAD_LINE: "Name: " */
    const struct template *value; /* of HEAD_LINE and HEAD_HOST; NULL = empty */
};

/* The head of requests at a location, as far as it is known when the configuration is read. */
struct head_plan {
    struct head_part *parts;
    unsigned count;
    bool doubts_framing; /* *_set_header tells a length or coding of its own */
    bool has_own_host;   /* *_set_header sets Host, which may turn out empty */
    bool says_close;     /* *_set_header sets Connection with the option "close" */
    uint64_t own;        /* bit of each known field that *_set_header names */
    uint64_t hidden;     /* bit of each known field of the client that is not passed on */
    struct map names;    /* others that are not, without case */
    uint64_t lengths;    /* bit n: one of these has n bytes (n modulo 64) */
};

/* The plan, filled in for one request. */
struct head_draft {
    const struct head_plan *plan;
    struct str host;     /* of the target */
    int64_t body_length; /* of the body that is sent; -1 = none, or not known */
    bool is_chunked;     /* the body is sent in chunks, where the protocol has them */
    bool has_own_host;   /* by *_set_header */
    bool says_close;     /* likewise, the option "close" of Connection (RFC 9112, 9.6) */
    struct str *values;  /* of the plan's parts; in the request's arena */
};

/* The apply function of *_set_header rows. */
bool head_field_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings);
/*
 * Lays heads out. set_headers: struct key_template. host: of the target, where it is known already;
 * NULL: it is reported for each request.
 */
struct head_plan *head_plan_make(struct arena *arena, const struct vec *set_headers,
                                 const struct str *host);

/* How the body of this request will be framed; x->sent.is_doubtful where the head does not tell its
 * end rightly. */
void head_draft_begin(struct exchange *x, const struct head_plan *plan, struct str host,
                      struct head_draft *draft);
/* Evaluates what has variables; gives the bytes that head_draft_put writes at most. */
size_t head_draft_room(struct exchange *x, struct head_draft *draft);
/* Writes the lines, each with CR LF, without an empty one at the end. Gives the end. */
char *head_draft_put(char *at, struct exchange *x, const struct head_draft *draft);

/* ---- targets (RFC 9112, 3.2.1) ---- */

/* What variables and rewritten URIs put together: nobody ends the request line with it. */
struct str target_safe(struct arena *arena, struct str text);
/* A target begins with a slash. */
struct str target_rooted(struct arena *arena, struct str target);
/* "first" and the request's URI from `from` bytes on, with the arguments. */
struct str target_assembled(struct request *request, struct str first, size_t from);
/* What the client asked for, or what was made of that. */
struct str target_of_request(struct request *request);

#endif
