/* The master's care for the shards: growing, shrinking, workers that are stuck. Private. */
#ifndef SERVER_MASTER_SHARD_CARE_H
#define SERVER_MASTER_SHARD_CARE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/shards/listener.h"
#include "server/generation.h"
#include "server/master/process.h"

/*
 * To be called when the workers of the generation in force accept, and whenever something changed
 * later: lets traffic into all wanted slots, has survivors adopt slots that are not wanted, closes
 * sets that are not.
 */
void shard_care_settle(struct generation *generation);

/* A generation takes over: what was stepped around counts no more. Before shard_care_settle. */
void shard_care_restart(void);

/* A worker says that the slot is empty. */
void shard_care_retired(struct generation *generation, uint32_t listener, uint32_t slot);

/* A process is gone: what it had adopted needs another. */
void shard_care_process_gone(struct generation *generation, const struct process *process);

/* Looks for workers that do not turn while connections wait for them. Every SHARD_LOOK_MS. */
void shard_care_look(struct generation *generation);
#define SHARD_LOOK_MS 25

/* Is there anything to look for? */
bool shard_care_has_to_look(const struct generation *generation);

/* Can another worker take what comes to a socket of the set? Those of flows belong to one worker.
 */
bool shard_care_watches(const struct shard_set *set);

/* Another master, older or newer, has the same sockets: nothing is taken away from it. */
bool another_master_lives(void);

#endif
