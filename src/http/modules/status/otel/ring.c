/* Spans of a worker that wait to be sent. */
#include "http/modules/status/otel/ring.h"

#include <stdlib.h>

bool span_ring_open(struct span_ring *ring, unsigned room, unsigned batch_size)
{
    *ring = (struct span_ring){.room = room, .batch_size = batch_size};
    ring->batches = calloc(room, sizeof(*ring->batches));
    return ring->batches != NULL;
}

void span_ring_close(struct span_ring *ring)
{
    for (unsigned i = 0; ring->batches != NULL && i < ring->room; i++) {
        buf_free(&ring->batches[i].spans);
    }
    free(ring->batches);
    *ring = (struct span_ring){.batches = NULL};
}

static struct span_batch *batch_at(const struct span_ring *ring, unsigned number)
{
    return &ring->batches[(ring->first + number) % ring->room];
}

static bool is_full(const struct span_ring *ring, const struct span_batch *batch)
{
    return batch->count >= ring->batch_size || batch->spans.len >= SPAN_BATCH_BYTES;
}

/* The newest batch, where it takes more; or NULL. */
static struct span_batch *open_batch(const struct span_ring *ring)
{
    if (ring->used == 0 || (ring->used == 1 && ring->is_sending)) {
        return NULL;
    }
    struct span_batch *batch = batch_at(ring, ring->used - 1);
    return is_full(ring, batch) ? NULL : batch;
}

struct buf *span_ring_next(struct span_ring *ring)
{
    struct span_batch *batch = open_batch(ring);

    if (batch == NULL) {
        if (ring->used == ring->room) {
            ring->dropped++;
            return NULL;
        }
        batch = batch_at(ring, ring->used++);
    }
    return &batch->spans;
}

bool span_ring_added(struct span_ring *ring)
{
    struct span_batch *batch = batch_at(ring, ring->used - 1);

    batch->count++;
    return is_full(ring, batch);
}

const struct span_batch *span_ring_take(struct span_ring *ring)
{
    if (ring->used == 0) {
        return NULL;
    }
    ring->is_sending = true;
    return batch_at(ring, 0);
}

/* Its memory goes as well: traffic that comes once a day does not keep it. */
void span_ring_sent(struct span_ring *ring, bool is_kept)
{
    ring->is_sending = false;
    if (!is_kept) {
        struct span_batch *batch = batch_at(ring, 0);

        buf_free(&batch->spans);
        *batch = (struct span_batch){.count = 0};
        ring->first = (ring->first + 1) % ring->room;
        ring->used--;
    }
}

bool span_ring_has_full(const struct span_ring *ring)
{
    return ring->used > 1 || (ring->used == 1 && is_full(ring, batch_at(ring, 0)));
}
