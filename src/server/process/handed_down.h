/* What a new binary gets from the older one besides the listening sockets, so that QUIC connections
 * survive: the random host key and the mailboxes of the workers. Private to this layer. */
#ifndef SERVER_PROCESS_HANDED_DOWN_H
#define SERVER_PROCESS_HANDED_DOWN_H

#include "base/arena.h"

/*
 * In the child, before execve(): writes it into a file in memory, and makes the descriptors
 * inheritable. Gives the environment variable for the new binary, in the arena; NULL: there is
 * nothing to pass on, or it failed, which is logged.
 */
char *handed_down_make(struct arena *arena);
/* In the new binary, before the configuration is read. Data of an unknown version is ignored. */
void handed_down_take(void);

#endif
