/* The other one of two masters, between USR2 and the end of one of them: idle connections are
 * handed over to its workers. Private to this folder. */
#ifndef SERVER_MASTER_OTHER_MASTER_H
#define SERVER_MASTER_OTHER_MASTER_H

#include <stdbool.h>

#include "base/arena.h"
#include "server/master/process.h"

/* Before a new binary starts: opens a channel for it. Gives its environment variable, or NULL with
 * a line in the log. */
char *other_master_open(struct arena *arena);
/* In the child, before execve(); in the parent, after fork(). */
void other_master_keep_open(void);
void other_master_forked(void);
/* At the start of a binary that an older one has started: from now on the older master waits for
 * our workers, so that requests on keep-alive connections are not lost. */
void other_master_inherit(void);

/* For poll(); -1 = there is no other master, or it is a different program. */
int other_master_fd(void);
void other_master_take_messages(void);
/* Sends the mailboxes of our workers, which are about to start, so that the other master's workers
   may pass datagrams to them (net/datagram/binaries.h). */
void other_master_send_mailboxes(void);
/* Our workers accept: the other master may hand over connections. */
void other_master_announce(void);
/* The other master runs this program, and its workers do not accept yet: they cannot take
   connections from ours. */
bool other_master_is_starting(void);
/*
 * Asks a worker to quit, and to hand its idle connections over to a worker of the other master.
 * False: there is none that takes them, nothing was sent.
 */
bool other_master_replaces(struct process *process);

void other_master_close(void);

#endif
