/* How long what is kept is fresh, by status: `*_cache_valid`. */
#ifndef HTTP_EXCHANGE_OPTIONS_VALID_H
#define HTTP_EXCHANGE_OPTIONS_VALID_H

#include "conf/directive.h"

/* One code of a `*_cache_valid` use. */
struct cache_valid {
    unsigned status;  /* 0 = any */
    uint64_t seconds; /* how long such a response is fresh */
};

/* Reads "[code ...] time" and adds it to a list of struct cache_valid. False after conf_error. */
bool cache_valid_read(struct conf_scope *scope, struct conf_node *node, struct vec *valid);
/* What the list says of a status; 0 = nothing. */
uint64_t cache_valid_seconds(const struct vec *valid, unsigned status);

#endif
