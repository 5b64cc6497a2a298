/* Elastic placement of new connections: which workers accept now.
 * Implemented in placement.c and placement_group.c. */
#ifndef NET_SHARDS_PLACEMENT_H
#define NET_SHARDS_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The workers of a generation form groups of at most 16 neighbouring slots. The members of a group
 * that accept watch the sockets of all its slots, their own first, with EPOLLEXCLUSIVE; those on
 * standby watch none, and serve what they have. So under load no more workers wake up for new
 * connections than are needed, and none that waits for a core; when the load is light all accept.
 * placement.c has the rules.
 */
#define PLACEMENT_GROUP_MOST 16u

/* Slots in each group but the last one, which may have fewer. */
unsigned placement_group_size(unsigned slots);

/* ---- in the master ---- */

/*
 * Before the workers of a generation start: what they share. Does nothing for a single worker, or
 * when it is there already. On failure it is logged, and all workers accept always.
 */
void placement_open(uint32_t generation, unsigned slots);
/* Gives back what was opened for generations before this one. */
void placement_close_before(uint32_t generation);
/* A worker has ended: it does not accept any more, and another one is called if nobody does. */
void placement_worker_gone(uint32_t generation, unsigned slot);
/* Does the worker of the slot stand by? */
bool placement_stands_by(uint32_t generation, unsigned slot);
/* Has any worker of the slot's group that accepts turned its loop since then (clock_now.now_ns)? */
bool placement_is_served(uint32_t generation, unsigned slot, uint64_t since_ns);

/* ---- in a worker, for the acceptors ---- */

/*
 * This worker accepts from now on, as a member of its group if there is one. hand_over: as in
 * struct accept_options.
 */
void placement_start(uint32_t generation, unsigned slot, unsigned slots,
                     unsigned (*hand_over)(int mailbox, unsigned most));
/* Where this worker gets idle connections of others of its group: a descriptor, which stays
 * placement's; -1 = nowhere. */
int placement_mailbox(void);
/* It accepts no more; somebody else is called if nobody does. */
void placement_stop(void);
/* May this worker watch the sockets of its group? */
bool placement_accepts(void);
/* Does the worker of another slot of this group accept? */
bool placement_sibling_accepts(unsigned slot);
/* Is this the only worker of its group that accepts? */
bool placement_is_alone(void);
/* Accepts from now on, whatever the rules say. */
void placement_join(void);
/* There is no more room for connections here, or there is some again. */
void placement_set_full(bool is_full);

#endif
