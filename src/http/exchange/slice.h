/* Slices: a long answer is asked for in ranges of one size, each of which the cache keeps by itself. */
#ifndef HTTP_EXCHANGE_SLICE_H
#define HTTP_EXCHANGE_SLICE_H

#include "http/exchange/internal.h"

/* The slice that an exchange asks for. */
struct slice {
    uint64_t size;    /* of each */
    uint64_t start;   /* of this one */
    uint64_t next;    /* … of the one after it */
    uint64_t end;     /* bytes behind it are not wanted: of the client's range, or of the whole */
    uint64_t total;   /* of the whole; known from the first answer on */
    uint64_t length;  /* of this one, as its Content-Range says */
    bool is_skipped;  /* it told about the whole only: none of its bytes are wanted */
    struct str etag;  /* of the first: all must be of one kind */
    bool is_first;    /* the response has not begun */
    struct str range; /* $slice_range */
};

/* Is `slice` on here, for a request that can be sliced? Then makes x->slice. */
bool slice_begin(struct exchange *x);

/*
 * The answer (or what the cache has) for x->slice is there: is it the range that was asked for? The
 * first one becomes a whole answer of status 200 with the length of the whole. False: it is not; for
 * the first that means that it is passed on as it is (x->slice becomes NULL), for others that the
 * response is cut (logged).
 */
bool slice_accept(struct exchange *x);

/* The response's head was made of the first slice: what of the whole is wanted is known now, and which slice is next. */
void slice_begun(struct exchange *x);

/* The answer has ended: did as much come as its Content-Range told? Logged if not. */
bool slice_is_complete(const struct exchange *x);

/* Does this exchange go on with a response that an earlier slice began? */
static inline bool slice_continues(const struct exchange *x)
{
    return x->slice != NULL && !x->slice->is_first;
}

/* Is the end of this exchange's answer the end of the response? */
static inline bool slice_is_last(const struct exchange *x)
{
    return x->slice == NULL ||
           (!x->slice->is_skipped && x->slice->start + x->slice->size >= x->slice->end);
}

/* The other slices, one exchange after another, into the response that the first one began. MAY WAIT. */
enum flow slice_rest(struct exchange *x);

#endif
