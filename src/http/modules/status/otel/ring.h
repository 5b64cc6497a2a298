/* A ring of batches of spans that wait to be sent, bounded in number and bytes. Independent of
 * requests and collectors. */
#ifndef HTTP_MODULES_STATUS_OTEL_RING_H
#define HTTP_MODULES_STATUS_OTEL_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define SPAN_BATCH_BYTES (1024 * 1024) /* a batch with at least this many bytes is full */

/* Spans that are sent together. */
struct span_batch {
    /* Space for the beginning of the message, followed by fields `spans` of a ScopeSpans message
     * (OTLP). */
    struct buf spans;
    unsigned count; /* number of spans */
};

struct span_ring {
    struct span_batch *batches;
    size_t frame;        /* bytes before the first span */
    size_t expected;     /* bytes to reserve for a batch, based on the last one, so that it grows
                            without copying */
    unsigned capacity;   /* maximum number of batches; batch_count */
    unsigned batch_size; /* maximum number of spans in a batch */
    unsigned first;      /* index of the oldest batch */
    unsigned used;       /* number of batches with spans */
    struct span_batch *open; /* the batch for the next span; NULL: another one must be opened */
    bool is_sending;         /* the oldest batch is being sent, and gets no further spans */
    uint64_t dropped;        /* spans without space */
};

/* False: out of memory. */
bool span_ring_open(struct span_ring *ring, unsigned capacity, unsigned batch_size, size_t frame);
void span_ring_close(struct span_ring *ring);

/* Opens another batch. NULL: all are full, and a span is counted as dropped. */
struct span_batch *span_ring_open_batch(struct span_ring *ring);

/* The buffer for the next span; call span_ring_added after writing it. NULL: all batches are full,
 * and it is counted as dropped. */
static inline struct buf *span_ring_next(struct span_ring *ring)
{
    struct span_batch *batch = ring->open != NULL ? ring->open : span_ring_open_batch(ring);

    return batch == NULL ? NULL : &batch->spans;
}

/* True: the batch is full with that span. */
static inline bool span_ring_added(struct span_ring *ring)
{
    struct span_batch *batch = ring->open;

    if (++batch->count < ring->batch_size && batch->spans.len < SPAN_BATCH_BYTES) {
        return false;
    }
    ring->open = NULL;
    return true;
}

/* The oldest batch, which does not change until span_ring_sent; NULL: there is none. */
const struct span_batch *span_ring_take(struct span_ring *ring);
/* Removes that batch. is_kept: it stays, to be taken again later. */
void span_ring_sent(struct span_ring *ring, bool is_kept);

/* Is there a full batch? */
bool span_ring_has_full(const struct span_ring *ring);

#endif
