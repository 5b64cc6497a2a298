/* A request's dealings with the cache, as the parts of this folder share them. */
#ifndef HTTP_EXCHANGE_CACHED_H
#define HTTP_EXCHANGE_CACHED_H

#include "cache/cache.h"
#include "http/exchange/internal.h"

struct cached {
    struct cache_access access; /* to the key of this request */
    enum cache_found found;     /* what the lookup gave */
    bool has_content;           /* a stored response is at hand, fresh or not */
    bool may_store;         /* the answer may be stored: claimed, not scarce, not switched off */
    bool is_filling;        /* it is being stored */
    bool is_bypassed;       /* cache_bypass: it was not looked at */
    struct cache_meta meta; /* of the answer that is being stored */
};

/* How long an answer is fresh, and what else its head says of storing (freshness.c). */
struct freshness {
    bool is_storable;   /* false: the answer says no, or nothing says how long */
    time_t valid_until; /* seconds of the epoch */
    time_t stale_while_updating_until, stale_if_error_until; /* 0 = none */
};
void freshness_of(const struct exchange *x, unsigned status, struct freshness *out);

/* The hash of the request's fields that a Vary value names (RFC 9111, 4.1). False: "*", or
 * too many names (logged); the hash is one that no stored answer has. */
bool vary_variant(const struct exchange *x, struct str vary, uint8_t out[CACHE_KEY_SIZE]);

/* An answer's head as bytes (data NULL: a name is too long for that), and back (packed.c). Texts of the latter
 * point into the bytes. */
struct str answer_pack(const struct answer *answer, struct arena *arena);
bool answer_unpack(struct str packed, struct arena *arena, struct answer *out);
/* The page itself is not there: it answers HEAD alone. */
void answer_packed_set_of_head(struct str packed);
bool answer_packed_is_of_head(struct str packed);

/* Requests that purge (purge.c). FLOW_NEXT: it is none. MAY WAIT. */
enum flow cached_purge(struct exchange *x);

#endif
