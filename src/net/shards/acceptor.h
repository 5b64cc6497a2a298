/* A socket from which this worker accepts; private to this package. */
#ifndef NET_SHARDS_ACCEPTOR_H
#define NET_SHARDS_ACCEPTOR_H

#include "net/shards/listener.h"

struct retirement;

enum acceptor_kind {
    ACCEPTOR_OWN,     /* of this worker's slot */
    ACCEPTOR_COMMON,  /* of a set that has one socket for all workers */
    ACCEPTOR_SIBLING, /* of another slot, whose worker may be busy */
    ACCEPTOR_RETIRED, /* of a slot that is retired, adopted: the descriptor is owned */
};

struct acceptor {
    struct acceptor *next;
    struct event_source source;
    struct listener *listener;
    enum acceptor_kind kind;
    unsigned slot;
    unsigned confidence; /* that a second connection waits after the first; saturates */
    unsigned probe;      /* events since it was last tried against experience */
    uint32_t order; /* of the slot, when this worker queued up after its own worker; of SIBLING */
    struct retirement *retirement; /* of RETIRED, owned; else NULL */
};

/* All of this worker. */
extern struct acceptor *acceptors;

/* One more; fd is owned if it is RETIRED. Not watched yet. NULL when there is no memory. */
struct acceptor *acceptor_new(struct listener *listener, enum acceptor_kind kind, unsigned slot,
                              int fd);
void acceptor_free(struct acceptor *acceptor);

/* Lets the kernel tell of connections on all those that this worker is to accept from now, or on
 * none. */
void acceptors_watch(void);
void acceptors_unwatch(void);
/* Takes what waits at the sockets of this worker's group, watched or not. Gives the number of
 * connections. */
unsigned acceptors_drain(void);
/* The same for one that is new. False with errno logged. */
bool acceptor_watch(struct acceptor *acceptor);

#endif
