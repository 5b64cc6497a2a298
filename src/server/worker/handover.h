/* Parked connections that are handed over from an old worker to its successor. Private to this
   package. */
#ifndef SERVER_WORKER_HANDOVER_H
#define SERVER_WORKER_HANDOVER_H

#include <stdbool.h>

#include "server/generation.h"

/* Identifies the format of messages and of the state in them: the two programs of an upgrade
 * compare it, so a change of either needs another number. */
#define HANDOVER_FORM 0x4a0d0e13u

/* ---- in the old worker */

/* The listener with this number has no successor: its connections stay here. Before
 * handover_start. */
void handover_listener_gone(unsigned number);

/* Sets handover_now, which sends over fd (owned from now on), in place of an earlier one. It sends
 * as soon as the other end has called handover_receive. */
void handover_start(int fd);

/* Everything that was given to handover_now has been sent. */
bool handover_is_done(void);

/* Ends it: handover_now is NULL, what has not been sent is closed. */
void handover_end(void);

/* The same at the end of the process: frees the notes about listeners as well. */
void handover_free(void);

/* ---- in the new worker */

/* Takes connections from fd (owned from now on) until the other end closes. is_mailbox: fd is the
 * mailbox of the slot, which outlives this worker. */
void handover_receive(int fd, bool is_mailbox);
/* Takes the connections of one message; the callee owns the descriptors. */
void handover_take(const char *data, size_t size, const int *fds, unsigned count);
/*
 * Takes what has been sent, and closes all descriptors that handover_receive got. has_successor:
 * another worker of this generation takes the slot, and continues to read the mailbox.
 */
void handover_receive_end(bool has_successor);

/* ---- in one process (`master_process off`) */

/* Sets handover_now, which gives connections of an older generation to the listeners of `to`; NULL
   clears it. */
void handover_within(struct generation *to);

#endif
