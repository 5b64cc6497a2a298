/* Output of body filters that give small parts: gathered, and passed on in larger pieces. */
#ifndef HTTP_REQUEST_GATHER_H
#define HTTP_REQUEST_GATHER_H

#include <stdbool.h>
#include <stddef.h>

#include "http/request/body_filter.h"

#define GATHER_SIZE 16384 /* bytes that are gathered before they are passed on */

/* Part of a filter. Zero but for `filter` is empty. */
struct gather {
    struct body_filter *filter; /* on whose behalf: bytes go to the next one */
    char *data; /* GATHER_SIZE bytes, or NULL: nothing was gathered yet; malloc'ed, goes with the
                   request */
    size_t len;
};

/* Gathers bytes, which are copied. MAY WAIT. False: the client is gone. */
bool gather_put(struct gather *gather, struct request *request, struct str bytes);
/* Passes on what was gathered. MAY WAIT. False: the client is gone. */
bool gather_give(struct gather *gather, struct request *request, bool is_flush, bool is_last);

#endif
