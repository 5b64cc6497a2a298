/* Sockets that a connection needs no longer, for the next ones: a new port, without a new socket.
 */
#ifndef NET_DATAGRAM_SPARE_H
#define NET_DATAGRAM_SPARE_H

#include "event/loop.h"

/*
 * The socket of a connection that ends, of this family, connected and watched, is kept if there is
 * room: it leaves its port at once, so that nothing more comes in. False: it is the caller's still.
 */
bool datagram_spare_put(int family, struct event_source *source);
/*
 * One of this family, which has no address, no port and nothing to be read, and is watched; nothing
 * that was sent to its former port can arrive any more. False: there is none.
 */
bool datagram_spare_take(int family, struct event_source *to);
/* Closes all: descriptors are short, or the worker ends. */
void datagram_spares_close(void);

#endif
