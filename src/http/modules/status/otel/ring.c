/* Batches of a worker that wait to be sent. */
#include "http/modules/status/otel/ring.h"

#include <stdlib.h>

bool span_ring_open(struct span_ring *ring, unsigned capacity, unsigned batch_size, size_t frame)
{
    *ring = (struct span_ring){.frame = frame, .capacity = capacity, .batch_size = batch_size};
    ring->batches = calloc(capacity, sizeof(*ring->batches));
    return ring->batches != NULL;
}

void span_ring_close(struct span_ring *ring)
{
    for (unsigned i = 0; ring->batches != NULL && i < ring->capacity; i++) {
        buf_free(&ring->batches[i].spans);
    }
    free(ring->batches);
    *ring = (struct span_ring){.batches = NULL};
}

static struct span_batch *batch_at(const struct span_ring *ring, unsigned number)
{
    return &ring->batches[(ring->first + number) % ring->capacity];
}

static bool is_full(const struct span_ring *ring, const struct span_batch *batch)
{
    return batch->count >= ring->batch_size || batch->spans.len >= SPAN_BATCH_BYTES;
}

struct span_batch *span_ring_open_batch(struct span_ring *ring)
{
    if (ring->used == ring->capacity) {
        ring->dropped++;
        return NULL;
    }
    ring->open = batch_at(ring, ring->used++);
    buf_reserve(&ring->open->spans, ring->expected > ring->frame ? ring->expected : ring->frame);
    ring->open->spans.len = ring->frame;
    return ring->open;
}

const struct span_batch *span_ring_take(struct span_ring *ring)
{
    if (ring->used == 0) {
        return NULL;
    }
    ring->is_sending = true;
    if (ring->open == batch_at(ring, 0)) {
        ring->open = NULL;
    }
    return batch_at(ring, 0);
}

/* Frees the memory of the batch as well, so that it is not kept after a rare traffic peak. */
void span_ring_sent(struct span_ring *ring, bool is_kept)
{
    struct span_batch *batch = batch_at(ring, 0);

    ring->is_sending = false;
    if (is_kept) {
        ring->open = ring->used == 1 && !is_full(ring, batch) ? batch : ring->open;
    } else {
        ring->expected = batch->spans.len + batch->spans.len / 4;
        buf_free(&batch->spans);
        *batch = (struct span_batch){.count = 0};
        ring->first = (ring->first + 1) % ring->capacity;
        ring->used--;
    }
}

bool span_ring_has_full(const struct span_ring *ring)
{
    return ring->used > 1 || (ring->used == 1 && is_full(ring, batch_at(ring, 0)));
}
