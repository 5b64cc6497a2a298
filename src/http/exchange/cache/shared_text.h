/* A response as nodes give it to each other: a line about its times, a head of HTTP/1.1, and the
 * body. Pure. */
#ifndef HTTP_EXCHANGE_CACHE_SHARED_TEXT_H
#define HTTP_EXCHANGE_CACHE_SHARED_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "cache/cache.h"
#include "http/exchange/exchange.h"

/* Times are seconds from when it was given, so that nodes need no clock in common. */
struct shared_times {
    uint64_t valid_s;                /* it is fresh for so long */
    uint64_t stale_while_updating_s; /* 0 = not */
    uint64_t stale_if_error_s;       /* 0 = not */
    uint64_t age_s;                  /* it was fetched so long before */
    uint8_t variant[CACHE_KEY_SIZE]; /* of the request that it answers; zero = of all */
};

/* All but the body, which follows. False: the head is too large to be read again. */
bool shared_text_begin(struct buf *text, const struct shared_times *times,
                       const struct upstream_response *response);
/* All is slices of the text, or in the arena. False: no node has written it. */
bool shared_text_read(struct str text, struct arena *arena, struct shared_times *times,
                      struct upstream_response *response, struct str *body);

#endif
