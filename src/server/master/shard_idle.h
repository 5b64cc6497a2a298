/* While no connection comes, the master does not check the shards: the next connection wakes it.
 * Private. */
#ifndef SERVER_MASTER_SHARD_IDLE_H
#define SERVER_MASTER_SHARD_IDLE_H

#include <stdbool.h>

#include "server/generation.h"

/*
 * From now on shard_idle_fd is readable once a connection comes to a socket that shard_care_look
 * checks, or if one waits there already. False, with a line in the log: that is not possible, and
 * the checks continue.
 */
bool shard_idle_begin(const struct generation *generation);
/* Ends shard_idle_begin: the checks continue. Also for a process that was forked. Does nothing if
 * it was not begun. */
void shard_idle_end(void);
/* For poll(); -1 = shard_idle_begin was not called, or has ended. */
int shard_idle_fd(void);

#endif
