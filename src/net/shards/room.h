/* When connections or descriptors run out: which connections give way, wait or are closed; private
 * to this package. */
#ifndef NET_SHARDS_ROOM_H
#define NET_SHARDS_ROOM_H

#include "net/shards/listener.h"

/* The worker of this slot, one of `slots`, begins to accept. */
void room_begin(unsigned slot, unsigned slots);
/* Its acceptors have gone. */
void room_end(void);

/* Accepts this worker nothing for now? */
bool room_is_paused(void);

/* After each accept: with the last place taken nothing more comes to this worker while siblings
 * have room. */
void room_taken(void);

/*
 * The limit of connections is reached. True: accept the next one all the same; *has_room tells
 * whether somebody gave way to it, or it is to be closed at once. False: accepting pauses.
 */
bool room_make(const struct listener *listener, bool *has_room);

/*
 * accept4 failed with this error, which is none of a single connection. True: an idle connection
 * gave its descriptor, so try again. False: logged, and accepting pauses.
 */
bool room_made_for_descriptor(const struct listener *listener, int error);

#endif
