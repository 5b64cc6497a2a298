/* Connected UDP sockets of our own, to backends. */
#ifndef NET_DATAGRAM_CONNECTION_H
#define NET_DATAGRAM_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "event/loop.h"
#include "net/addr/addr.h"

struct datagram_connection;

/* Called on the loop's stack; each may close the connection. */
struct datagram_connection_owner {
    /* One from the backend; perhaps empty. The bytes are gone after the call. */
    void (*received)(struct datagram_connection *connection, struct str datagram);
    /* The kernel has reported an error, of reading (ECONNREFUSED: nothing listens there) or of
     * sending. */
    void (*failed)(struct datagram_connection *connection, int error, bool is_send);
};

/* Embedded in whatever has a backend. */
struct datagram_connection {
    struct event_source source; /* the socket, owned; fd -1 = none */
    const struct datagram_connection_owner *owner;
    bool is_slow;  /* one at a time is read, so that it can be paused after each */
    bool had_many; /* the last batch was of more than one */
    uint16_t
        reused_as; /* its family, when another connection may have the socket after it; else 0 */
    uint64_t last_turn; /* of the loop, in which it was read */
};

/* How a connection begins. */
struct datagram_connection_options {
    const struct addr *bind; /* the local address, or NULL */
    bool is_transparent;     /* that is another machine's */
    bool is_slow;            /* may be paused after each datagram */
};

/* Connects; never waits. False with errno; *what: the call that failed, for the log. */
bool datagram_connection_open(struct datagram_connection *connection, const struct addr *peer,
                              const struct datagram_connection_options *options, const char **what);

/* Sends one datagram now. False with errno: it is lost. */
bool datagram_connection_send(struct datagram_connection *connection, struct str datagram);

/* Reads no more until datagram_connection_resume; what comes waits in the kernel, as far as it has
 * room. */
void datagram_connection_pause(struct datagram_connection *connection);
/* False with errno. Does nothing when it is not paused. */
bool datagram_connection_resume(struct datagram_connection *connection);

void datagram_connection_close(struct datagram_connection *connection);

#endif
