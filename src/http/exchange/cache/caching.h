/* What surrounds an exchange: what is kept of responses, as the parts of this folder share it. */
#ifndef HTTP_EXCHANGE_CACHE_CACHING_H
#define HTTP_EXCHANGE_CACHE_CACHING_H

#include "cache/cache.h"
#include "cache/shared_fetch.h"
#include "http/exchange/internal.h"
#include "http/exchange/options/cache_hook.h"

struct slice;
struct store;

/* An exchange's dealings with the cache. */
struct cached {
    struct cache_access access; /* to the key of this request */
    enum cache_found found;     /* what the lookup gave */
    bool has_content;           /* a stored response is at hand, fresh or not */
    bool may_store;         /* the response may be stored: claimed, not scarce, not switched off */
    bool has_answer;        /* a backend has answered with a final response */
    bool is_filling;        /* it is being stored */
    uint64_t began_ns;      /* when it was looked at first; of a request that is observed */
    bool is_bypassed;       /* cache_bypass: it was not looked at */
    struct cache_meta meta; /* of the response that is being stored */
    struct shared_fetch shared; /* `sync` of *_cache_lock: how other nodes have a part in it */
};

/* What struct exchange points to where something is to be kept; in the request's arena. */
struct exchange_caching {
    struct cached *cached;      /* NULL: no cache for this request */
    struct slice *slice;        /* the part of a long response that is asked for, or NULL */
    struct store *store;        /* *_store: the file being written, or NULL */
    struct str status;          /* "HIT", "MISS", … or empty */
    enum cache_counter counter; /* that goes with the status */
    bool is_body_counted;       /* the bytes of the body were counted */
    struct cached room;         /* what cached points to */
};

/* ---- lookup.c, serve.c: what is there ---- */

/* Looks into the cache where this place has one. HANDLER_NEXT and not x->is_served: a backend is to
 * be asked (and may_store says whether its response is stored). MAY WAIT. */
enum handler_result cached_lookup(struct exchange *x);
/* $upstream_cache_status, and the counter that goes with it. */
void cached_note(struct exchange *x, struct str status, enum cache_counter counter);
/* Counts the body of this request; only once. */
void cached_count_body(struct exchange *x, uint64_t bytes, bool is_written);
/* Gives the client what is stored. MAY WAIT. */
enum handler_result cached_serve(struct exchange *x, struct str status, enum cache_counter counter);
/* No backend answered this request, or others like it a moment ago: the client gets the status. */
enum handler_result cached_refuse(struct exchange *x);
/* A failure of this kind: is there a stale response that may be given instead? */
bool cached_may_serve_stale(const struct exchange *x, unsigned kind);

/* ---- fill.c: what is to be there ---- */

/* The backend's head is there. HANDLER_NEXT: relay it; else it was answered from the cache (304).
 */
enum handler_result cached_accept(struct exchange *x);
/* A part of the body, its end, or that it was cut short. */
void cached_write(struct exchange *x, struct str bytes);
void cached_end(struct exchange *x, bool is_whole);
/* The request has ended with this status, which a backend's response does not have: requests that
 * follow get it for as long as *_cache_valid says. */
void cached_fail(struct exchange *x, unsigned status);

/* What is to be kept of the head of x->response, but for its times. False: nothing. */
bool cached_describe(struct exchange *x, struct cache_meta *meta);

/* ---- shared.c: one fetch for all nodes, where *_cache_lock has `sync` ---- */

enum share_outcome {
    SHARE_FETCH,     /* a backend is to be asked */
    SHARE_TAKEN,     /* another node's response was stored, and is at hand */
    SHARE_BUSY,      /* another node fetches it; only if it was not waited for */
    SHARE_CANCELLED, /* the client has gone */
};
/* This request has claimed the key at this node. Waits for other nodes until then (clock_now.now_ms
 * time; 0: not at all). MAY WAIT. */
enum share_outcome share_ask(struct exchange *x, uint64_t until_ms);
/* The response's head is there, or so much of its body: is it too large for others? */
void share_check(struct exchange *x, uint64_t size);
/* The response was stored, or renewed: others get it, if it is for them. */
void share_give(struct exchange *x);
/* Others are to fetch for themselves, unless they got it. */
void share_end(struct exchange *x);

/* ---- store.c: *_store ---- */

void store_begin(struct exchange *x);
void store_write(struct exchange *x, struct str bytes);
void store_end(struct exchange *x, bool is_whole);

/* ---- freshness.c, packed.c, purge.c ---- */

/* How long a response is fresh, and what else its head says of storing. */
struct freshness {
    bool is_storable;   /* false: the response says no, or nothing says how long */
    time_t valid_until; /* seconds of the epoch */
    time_t stale_while_updating_until, stale_if_error_until; /* 0 = none */
};
void freshness_of(const struct exchange *x, unsigned status, struct freshness *out);

/* The hash of the request's fields that a Vary value names (RFC 9111, 4.1). False: "*", or
 * too many names (logged); the hash is one that no stored response has. */
bool vary_variant(const struct exchange *x, struct str vary, uint8_t out[CACHE_KEY_SIZE]);

/* A response's head as bytes (data NULL: a name is too long for that), and back. Texts of the
 * latter point into the bytes. */
struct str upstream_response_pack(const struct upstream_response *response, struct arena *arena);
bool upstream_response_unpack(struct str packed, struct arena *arena,
                              struct upstream_response *out);
/* The page itself is not there: it answers HEAD alone. */
void packed_response_set_of_head(struct str packed);
bool packed_response_is_of_head(struct str packed);

/* Requests that purge. HANDLER_NEXT: it is none. MAY WAIT. */
enum handler_result cached_purge(struct exchange *x);

#endif
