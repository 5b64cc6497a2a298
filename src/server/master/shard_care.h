/* The master's policy for the shards: growing, shrinking, blocked workers. Private. */
#ifndef SERVER_MASTER_SHARD_CARE_H
#define SERVER_MASTER_SHARD_CARE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/shards/listener.h"
#include "server/generation.h"
#include "server/master/process.h"

/*
 * To be called when the workers of the running generation accept, and whenever something has
 * changed later: opens all wanted slots for connections, has survivors adopt the other slots,
 * closes sets that are not used.
 */
void shard_care_settle(struct generation *generation);

/* A new generation takes over: forgets which workers were blocked. Before shard_care_settle. */
void shard_care_restart(void);

/* A worker reports that the slot is empty. */
void shard_care_retired(struct generation *generation, uint32_t listener, uint32_t slot);

/* A process has ended: finds other workers for what it had adopted. */
void shard_care_process_gone(struct generation *generation, const struct process *process);

/* Checks for workers that are blocked while connections wait for them. Every SHARD_LOOK_MS. */
void shard_care_look(struct generation *generation);
#define SHARD_LOOK_MS 25

/* Is there anything to check for? */
bool shard_care_has_to_look(const struct generation *generation);

/* Can another worker take what arrives at a socket of the set? A socket with UDP flows belongs to
   one worker. */
bool shard_care_watches(const struct shard_set *set);

/* Does another master, older or newer, have the same sockets? Then none of them is taken away from
   it. */
bool another_master_lives(void);

#endif
