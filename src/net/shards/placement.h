/* Elastic placement of new connections: which workers accept at the moment. Implemented in
 * placement.c and placement_group.c. */
#ifndef NET_SHARDS_PLACEMENT_H
#define NET_SHARDS_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The workers of a generation form groups of at most 16 neighbouring slots. The accepting members
 * of a group watch the sockets of all its slots, their own first, with EPOLLEXCLUSIVE. Members on
 * standby watch none, and serve the connections that they have. So under load no more workers wake
 * up for new connections than needed, and none that waits for a core; when the load is light all
 * accept. placement.c has the rules.
 */
#define PLACEMENT_GROUP_MOST 16u

/* Slots of each group; the last group may have fewer. */
unsigned placement_group_size(unsigned slots);

/* ---- in the master ---- */

/*
 * Allocates what the workers of a generation share, before they start. Does nothing for a single
 * worker, or if it exists. A failure is logged; then all workers always accept.
 */
void placement_open(uint32_t generation, unsigned slots);
/* Frees what was opened for earlier generations. */
void placement_close_before(uint32_t generation);
/* A worker has ended: it does not accept any more. If no other member does, calls one. */
void placement_worker_gone(uint32_t generation, unsigned slot);
/* Is the worker of the slot on standby? */
bool placement_stands_by(uint32_t generation, unsigned slot);
/* Has any accepting worker of the slot's group turned its loop since that time
 * (clock_now.now_ns)? */
bool placement_is_served(uint32_t generation, unsigned slot, uint64_t since_ns);

/* ---- in a worker, for the acceptors ---- */

/*
 * This worker accepts from now on, as a member of its group if there is one. hand_over: see struct
 * accept_options.
 */
void placement_start(uint32_t generation, unsigned slot, unsigned slots,
                     unsigned (*hand_over)(int mailbox, unsigned most));
/* The descriptor where this worker gets idle connections of other members of its group; not the
 * caller's; -1 = none. */
int placement_mailbox(void);
/* This worker stops accepting for good; calls a member if no other accepts. */
void placement_stop(void);
/* May this worker watch the sockets of its group? */
bool placement_accepts(void);
/* Does the worker of another slot of this group accept? */
bool placement_sibling_accepts(unsigned slot);
/* Is this the only accepting worker of its group? */
bool placement_is_alone(void);
/* Starts to accept, whatever the rules say. */
void placement_join(void);
/* This worker has no free connections, or has some again. */
void placement_set_full(bool is_full);

#endif
