/* Links: connected UDP sockets of our own, to backends. */
#ifndef NET_DATAGRAM_LINK_H
#define NET_DATAGRAM_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "event/loop.h"
#include "net/addr/addr.h"

struct datagram_link;

/* Called on the loop's stack; each may close the link. */
struct datagram_link_owner {
    /* One from the backend; perhaps empty. The bytes are gone after the call. */
    void (*received)(struct datagram_link *link, struct str datagram);
    /* The kernel told of an error, of reading (ECONNREFUSED: nobody is there) or of sending. */
    void (*failed)(struct datagram_link *link, int error, bool is_send);
};

/* Embedded in whatever has a backend. */
struct datagram_link {
    struct event_source source; /* the socket, owned; fd -1 = none */
    const struct datagram_link_owner *owner;
    bool is_slow;       /* one at a time is read, so that it can be paused after each */
    bool had_many;      /* the last batch was of more than one */
    uint16_t reused_as; /* its family, when another link may have the socket after it; else 0 */
    uint64_t last_turn; /* of the loop, in which it was read */
};

/* How a link begins. */
struct datagram_link_options {
    const struct addr *bind; /* the local address, or NULL */
    bool is_transparent;     /* that is another machine's */
    bool is_slow;            /* may be paused after each datagram */
};

/* Connects; never waits. False with errno; *what: the call that failed, for the log. */
bool datagram_link_open(struct datagram_link *link, const struct addr *peer,
                        const struct datagram_link_options *options, const char **what);

/* Sends one datagram now. False with errno: it is lost. */
bool datagram_link_send(struct datagram_link *link, struct str datagram);

/* Reads no more until datagram_link_resume; what comes waits in the kernel, as far as it has room. */
void datagram_link_pause(struct datagram_link *link);
/* False with errno. Does nothing when it is not paused. */
bool datagram_link_resume(struct datagram_link *link);

void datagram_link_close(struct datagram_link *link);

#endif
