/* Slices: a long response is asked for in ranges of one size, each of which the cache keeps by
 * itself. */
#ifndef HTTP_EXCHANGE_CACHE_SLICE_H
#define HTTP_EXCHANGE_CACHE_SLICE_H

#include "http/exchange/cache/caching.h"

/* The slice that an exchange asks for. */
struct slice {
    uint64_t size;    /* of each */
    uint64_t start;   /* of this one */
    uint64_t next;    /* start of the slice after this one */
    uint64_t end;     /* bytes after it are not wanted: of the client's range, or of the whole */
    uint64_t total;   /* of the whole; known from the first response on */
    uint64_t length;  /* of this one, as its Content-Range says */
    struct str etag;  /* of the first: all must be of one kind */
    bool is_first;    /* the response has not begun */
    struct str range; /* $slice_range */
};

/* When the configuration is read: is `slice` on in this block? */
bool slice_is_on(const struct conf_scope *scope);

/* The first slice, where `slice` is on and the request can be sliced; else NULL. */
struct slice *slice_new(const struct exchange *x);

/*
 * The response (or what the cache has) for the slice is there: is it the range that was asked for?
 * The first one becomes a whole response of status 200 with the length of the whole. False: it is
 * not; for the first that means that it is passed on as it is (kept->slice becomes NULL), for
 * others that the response is cut (logged).
 */
bool slice_accept(struct exchange *x);

/* The response's head was made of the first slice: what of the whole is wanted is known now, and
 * which slice is next. */
void slice_started(struct exchange *x);

/* The response has ended: did as much come as its Content-Range says? Logged if not. */
bool slice_is_complete(const struct exchange *x);

/* It is the one that begins there now. */
void slice_set_start(struct slice *slice, struct arena *arena, uint64_t start);

#endif
