/* The other one of two masters, between USR2 and the end of one of them: idle connections go over
 * to its workers. Private to this folder. */
#ifndef SERVER_MASTER_OTHER_MASTER_H
#define SERVER_MASTER_OTHER_MASTER_H

#include <stdbool.h>

#include "base/arena.h"
#include "server/master/process.h"

/* Before a new binary starts: a socket for it. Gives its variable of the environment, or NULL with
 * a line in the log. */
char *other_master_open(struct arena *arena);
/* In the child, before execve(); in the parent, after fork(). */
void other_master_keep_open(void);
void other_master_forked(void);
/* At the start of a binary that an older one has started: from now on requests of kept connections
 * are not lost. */
void other_master_inherit(void);

/* For poll(); -1 = there is no other master, or it is none of ours. */
int other_master_fd(void);
void other_master_take_messages(void);
/* Its workers may pass datagrams to ours, which are about to start (net/datagram/binaries.h). */
void other_master_send_mailboxes(void);
/* Our workers accept: the other master may send what its workers have. */
void other_master_announce(void);
/* It is one of ours, and its workers do not accept yet: nobody could take what ours have. */
bool other_master_is_starting(void);
/*
 * Asks a worker to quit, and to hand its idle connections to one of the other master's. False:
 * there is none that takes them, nothing was sent.
 */
bool other_master_replaces(struct process *process);

void other_master_close(void);

#endif
