/* Spans of a worker that wait to be sent: batches in a ring, bounded in number and bytes. Knows no
 * request and no collector. */
#ifndef HTTP_MODULES_STATUS_OTEL_RING_H
#define HTTP_MODULES_STATUS_OTEL_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define SPAN_BATCH_BYTES (1024 * 1024) /* of a batch; a batch with as many takes no span more */

/* Spans that are sent together. */
struct span_batch {
    /* Room for what the message begins with, then fields `spans` of a ScopeSpans message (OTLP). */
    struct buf spans;
    unsigned count; /* of them */
};

struct span_ring {
    struct span_batch *batches;
    size_t frame;        /* bytes before the first span */
    size_t expected;     /* bytes of a batch, as the last one had: it grows without being copied */
    unsigned room;       /* batches at most; batch_count */
    unsigned batch_size; /* spans of a batch at most */
    unsigned first;      /* the oldest batch */
    unsigned used;       /* batches that have spans */
    struct span_batch *open; /* that takes the next span; NULL: a further one does */
    bool is_sending;         /* the oldest one is on its way: it takes no more */
    uint64_t dropped;        /* spans that found no room */
};

/* False: no memory. */
bool span_ring_open(struct span_ring *ring, unsigned room, unsigned batch_size, size_t frame);
void span_ring_close(struct span_ring *ring);

/* Opens a further batch. NULL: all are full, and a span is counted as dropped. */
struct span_batch *span_ring_open_batch(struct span_ring *ring);

/* Where the next span is put; span_ring_added when it was. NULL: all batches are full, and it is
 * counted as dropped. */
static inline struct buf *span_ring_next(struct span_ring *ring)
{
    struct span_batch *batch = ring->open != NULL ? ring->open : span_ring_open_batch(ring);

    return batch == NULL ? NULL : &batch->spans;
}

/* True: with that span a batch is full. */
static inline bool span_ring_added(struct span_ring *ring)
{
    struct span_batch *batch = ring->open;

    if (++batch->count < ring->batch_size && batch->spans.len < SPAN_BATCH_BYTES) {
        return false;
    }
    ring->open = NULL;
    return true;
}

/* The oldest batch, which stays as it is until span_ring_sent; NULL: there is none. */
const struct span_batch *span_ring_take(struct span_ring *ring);
/* That batch is gone. is_kept: it is not, and is taken again later. */
void span_ring_sent(struct span_ring *ring, bool is_kept);

/* Is there a batch that takes no more spans? */
bool span_ring_has_full(const struct span_ring *ring);

#endif
