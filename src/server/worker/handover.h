/* Parked connections on their way from an old worker to its successor. Private to this package. */
#ifndef SERVER_WORKER_HANDOVER_H
#define SERVER_WORKER_HANDOVER_H

#include <stdbool.h>

#include "server/generation.h"

/* Names the form of messages and of the state in them: two programs of an upgrade compare it, so a
 * change of either needs another number. */
#define HANDOVER_FORM 0x4a0d0e13u

/* ---- in the old worker */

/* This listener (by its number) has no successor: its connections stay here. Before handover_start.
 */
void handover_listener_gone(unsigned number);

/* Makes handover_now, which sends over fd (owned from now on), in place of a former one, as soon as
 * the other end has called handover_receive. */
void handover_start(int fd);

/* Everything that was given to handover_now has left. */
bool handover_is_done(void);

/* No more: handover_now is NULL, what has not left is closed. */
void handover_end(void);

/* The same at the end of the process: what was noted about listeners is freed, too. */
void handover_free(void);

/* ---- in the new worker */

/* Takes connections from fd (owned from now on) until the other end closes. is_mailbox: it is the
 * slot's, and outlives. */
void handover_receive(int fd, bool is_mailbox);
/* Takes what one message has brought; the descriptors are the callee's. */
void handover_take(const char *data, size_t size, const int *fds, unsigned count);
/*
 * Takes what has been sent, and closes what is still open for that. has_successor: another worker
 * of this generation takes the slot, and reads the mailbox on.
 */
void handover_receive_end(bool has_successor);

/* ---- in one process (`master_process off`) */

/* Makes handover_now, which gives connections of an older generation to the listeners of `to`. */
void handover_within(struct generation *to);

#endif
