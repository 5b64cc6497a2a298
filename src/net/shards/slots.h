/* What all processes of the service share about each slot; the part that others may see is in
 * listener.h. */
#ifndef NET_SHARDS_SLOTS_H
#define NET_SHARDS_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * One slot. Its worker writes most of it; while one generation follows another there are two of
 * them, and siblings count what they take: so all of it is atomic.
 */
struct shard_slot {
    _Atomic uint64_t own;     /* connections that its own worker accepted */
    _Atomic uint64_t taken;   /* connections that siblings took, since it was busy */
    _Atomic uint64_t adopted; /* connections that a survivor took after the slot had retired */
    _Atomic uint64_t
        joined;            /* times that its worker began to accept again, after it had stood by */
    _Atomic uint64_t left; /* times that it stood by */
    _Atomic uint64_t gave; /* idle connections that it gave to others */
    _Atomic uint64_t in_vain; /* times that its worker was woken to accept, and there was nothing */
    /* Connections that its worker has open: in the same shared memory; NULL = no worker yet. */
    const uint64_t *_Atomic load;
    /* Connections that it accepted and requests that it served so far: as load. */
    const uint64_t *_Atomic accepted;
    const uint64_t *_Atomic requests;
    /* Raised when its worker has queued up again at its socket: siblings are then before it, and
     * queue up after it. */
    _Atomic uint32_t order;
    /* Of slot 0: enum coalesce_level + 1 that was found best last; 0 = none yet. */
    _Atomic uint32_t coalesce;
    _Atomic uint32_t is_full; /* its worker finds no room, and accepts nothing */
    _Atomic uint32_t reader;  /* who reads its datagrams: number of a mailbox + 1; 0 = nobody yet */
};

/* The slot's part of the shared memory; there is one after shard_slots_init. */
struct shard_slot *shard_slot(unsigned slot);

/* Its worker accepts again, or stands by (placement.h). */
void shard_slot_joined(unsigned slot);
void shard_slot_left(unsigned slot);
/* It gave so many idle connections to others. */
void shard_slot_gave(unsigned slot, unsigned n);

/* New connections are steered to other slots than before. */
void shard_steered(void);

struct accept_options;
/* The slot has a new worker, which has room. */
void shard_slot_begin(unsigned slot, const struct accept_options *options);

/* Connections accepted and requests served so far by the workers of the first `slots` slots. */
uint64_t shard_slots_work(unsigned slots);

/* Has the slot's worker many more connections than the mean of the `slots` workers? */
bool shard_slot_is_ahead(unsigned slot, unsigned slots);

/* How many more connections the slot's worker could keep, of `limit`, and leave a sixteenth for new
 * ones. */
unsigned shard_slot_free(unsigned slot, unsigned limit);

/* Has any other of the `slots` workers that watch the slot's sockets room for one more connection?
 */
bool shard_slot_sibling_has_room(unsigned slot, unsigned slots);

#endif
