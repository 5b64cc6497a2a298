/* Reading datagrams of clients; private to this package. */
#ifndef NET_DATAGRAM_READ_H
#define NET_DATAGRAM_READ_H

#include "net/datagram/connection.h"
#include "net/datagram/private.h"

/* Makes the room that datagrams are read into, once in a process. False with errno. */
bool datagram_read_begin(void);
void datagram_read_end(void);

/*
 * Reads what waits at the source, but not for ever, and delivers it as the port's. Gives how many
 * there were. The source may be stopped by whom a datagram is delivered to: its memory must stay.
 */
unsigned datagram_read(struct datagram_port *port, const struct event_source *source);

/* How reading from a connection went. */
enum datagram_read {
    DATAGRAM_READ_DONE,
    DATAGRAM_READ_FAILED, /* errno */
    DATAGRAM_READ_GONE    /* its owner has closed the connection; its memory may be gone */
};
/* Reads one datagram, or one batch of them, and tells the owner of each. */
enum datagram_read datagram_read_connection(struct datagram_connection *connection, bool is_alone);
/* The connection is closed: what was read and its owner has not heard of is dropped. */
void datagram_read_forget(const struct datagram_connection *connection);

#endif
