/* State of each slot that all processes of the service share; the public part is in listener.h. */
#ifndef NET_SHARDS_SLOTS_H
#define NET_SHARDS_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * One slot. Mostly written by its worker; but two generations may have a worker of the slot at the
 * same time, and siblings count what they accept: so all members are atomic.
 */
struct shard_slot {
    _Atomic uint64_t own;   /* connections that its own worker accepted */
    _Atomic uint64_t taken; /* connections that siblings accepted because it was busy */
    /* Connections that another worker accepted after the slot was retired. */
    _Atomic uint64_t adopted;
    _Atomic uint64_t joined;  /* times that its worker began to accept again after standby */
    _Atomic uint64_t left;    /* times that it went to standby */
    _Atomic uint64_t gave;    /* idle connections that it gave to other workers */
    _Atomic uint64_t in_vain; /* times that its worker was woken to accept and found nothing */
    /* The number of connections of its worker, in shared memory; NULL = no worker yet. */
    const uint64_t *_Atomic load;
    /* Connections accepted and requests served by it so far, in shared memory. */
    const uint64_t *_Atomic accepted;
    const uint64_t *_Atomic requests;
    /* Incremented to make siblings queue up again at the slot's socket, after the slot's own
     * worker. */
    _Atomic uint32_t order;
    /* Slot 0 only: the enum coalesce_level that was last found best, + 1; 0 = none yet. */
    _Atomic uint32_t coalesce;
    _Atomic uint32_t is_full; /* its worker has no free connections and does not accept */
    _Atomic uint32_t reader;  /* reader of its datagrams: number of a mailbox + 1; 0 = none yet */
};

/* The shared memory of the slot; valid after shard_slots_init. */
struct shard_slot *shard_slot(unsigned slot);

/* Counts that its worker accepts again, or goes to standby (placement.h). */
void shard_slot_joined(unsigned slot);
void shard_slot_left(unsigned slot);
/* Counts idle connections that it gave to others. */
void shard_slot_gave(unsigned slot, unsigned n);

/* Counts a change of the steering. */
void shard_steered(void);

struct accept_options;
/* The slot has a new worker, which has free connections. */
void shard_slot_begin(unsigned slot, const struct accept_options *options);

/* Connections accepted and requests served so far by the workers of the first `slots` slots. */
uint64_t shard_slots_work(unsigned slots);

/* Has the slot's worker many more connections than the mean of the `slots` workers? */
bool shard_slot_is_ahead(unsigned slot, unsigned slots);

/* How many more of `limit` connections the slot's worker can take and leave a sixteenth for new
 * ones. */
unsigned shard_slot_free(unsigned slot, unsigned limit);

/* Has any other of the `slots` workers that watch the slot's sockets a free connection? */
bool shard_slot_sibling_has_room(unsigned slot, unsigned slots);

#endif
