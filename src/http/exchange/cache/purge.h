/* A location whose requests remove stored answers: `*_cache_purge zone key`. */
#ifndef HTTP_EXCHANGE_CACHE_PURGE_H
#define HTTP_EXCHANGE_CACHE_PURGE_H

#include "http/exchange/options/settings.h"
#include "http/routing/settings.h"

/* Gives the location its handler: each request removes what zone and key name; 404 where nothing was there. */
void purge_place_set(struct http_location *location, const struct purge_settings *purge);

#endif
