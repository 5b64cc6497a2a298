/* While no connection comes, the master does not look at the shards: it is woken by the next one.
 * Private. */
#ifndef SERVER_MASTER_SHARD_IDLE_H
#define SERVER_MASTER_SHARD_IDLE_H

#include <stdbool.h>

#include "server/generation.h"

/*
 * From now on shard_idle_fd is readable once a connection comes to a socket that shard_care_look
 * looks at, or waits there already. False, with a line in the log: it cannot be, and the looks
 * continue.
 */
bool shard_idle_begin(const struct generation *generation);
/* The looks begin again. Also for a process that was forked. Nothing to do where they have not
 * ended. */
void shard_idle_end(void);
/* To be polled; -1 = shard_idle_begin was not called, or has ended. */
int shard_idle_fd(void);

#endif
