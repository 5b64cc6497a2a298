/* Reading datagrams of clients; private to this room. */
#ifndef NET_DATAGRAM_READ_H
#define NET_DATAGRAM_READ_H

#include "net/datagram/private.h"

/* Makes the room that datagrams are read into, once in a process. False with errno. */
bool datagram_read_begin(void);
void datagram_read_end(void);

/*
 * Reads what waits at the source, but not for ever, and delivers it as the port's. Gives how many there were. The source
 * may be stopped by whom a datagram is delivered to: its memory must stay.
 */
unsigned datagram_read(struct datagram_port *port, const struct event_source *source);

#endif
