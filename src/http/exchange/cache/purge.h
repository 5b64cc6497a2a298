/* A location whose requests remove what is kept: `*_cache_purge zone key`. */
#ifndef HTTP_EXCHANGE_CACHE_PURGE_H
#define HTTP_EXCHANGE_CACHE_PURGE_H

#include "conf/directive.h"
#include "http/request/request.h"

/*
 * Reads "zone key" and gives the location its handler: each request removes what zone and key name;
 * 404 where nothing was there. False after conf_error. Besides the key itself what full_key makes
 * of it at that place is removed; NULL: nothing.
 */
bool purge_place_read(struct conf_scope *scope, struct conf_node *node,
                      struct str (*full_key)(struct request *request, struct str key));

#endif
