/* When connections or descriptors run out: which connections are closed, wait or are refused;
 * private to this package. */
#ifndef NET_SHARDS_CAPACITY_H
#define NET_SHARDS_CAPACITY_H

#include "net/shards/listener.h"

/* The worker of this slot, one of `slots`, begins to accept. */
void capacity_begin(unsigned slot, unsigned slots);
/* Its acceptors were freed. */
void capacity_end(void);

/* Is accepting paused? */
bool capacity_is_paused(void);

/* To be called after each accept: with the last connection taken, this worker pauses while siblings
 * have free ones. */
void capacity_taken(void);

/*
 * The limit of connections is reached. True: accept the next one; *has_room: an idle connection was
 * closed for it, else it has to be refused. False: accepting pauses.
 */
bool capacity_make(const struct listener *listener, bool *has_room);

/*
 * accept4 failed with this error, which does not concern a single connection. True: an idle
 * connection was closed, so try again. False: logged, and accepting pauses.
 */
bool capacity_made_for_descriptor(const struct listener *listener, int error);

#endif
