/* A header block on its way to a request, or to its trailers. */
#ifndef HTTP_V2_HEADING_H
#define HTTP_V2_HEADING_H

#include "http/v2/v2.h"

enum pseudo {
    PSEUDO_NONE, /* none that is known */
    PSEUDO_METHOD,
    PSEUDO_SCHEME,
    PSEUDO_PATH,
    PSEUDO_AUTHORITY,
    PSEUDO_PROTOCOL,
    PSEUDO_COUNT
};

/* A header block on its way to a request. */
struct heading {
    struct v2_connection *c;
    struct request *request;
    struct fields *fields; /* where they go */
    const struct head_limits *limits;
    struct str pseudo[PSEUDO_COUNT];
    bool has[PSEUDO_COUNT];
    struct str priority; /* value of the field; or NULL */
    bool has_regular;    /* a field that is none of these came: they come no more */
    bool is_trailer;     /* no pseudo-fields at all */
    uint32_t count;      /* fields */
    uint32_t regulars;   /* … that are no pseudo-fields */
    uint32_t cookies;
    size_t size;            /* bytes of names and values */
    unsigned status;        /* to refuse the request with; 0 = none */
    enum v2_error error;    /* … and the stream is reset with this */
    struct str name, value; /* of the field that was wrong */
    const char *reason;
};

/* Notes what is wrong, if it is the first thing: the rest of the block is read for the table's sake. field may be
 * NULL. */
void heading_refuse(struct heading *heading, unsigned status, const char *reason,
                    const struct hpack_field *field);
/* All fields of the block (heading.c). False: the connection has failed. */
bool heading_decode(struct heading *heading, struct str block);
/* What the fields say of the request (setup.c); flags are those of HEADERS. */
void heading_set_up(struct heading *heading, uint8_t flags);

#endif
