/* A socket from which this worker accepts; private to this package. */
#ifndef NET_SHARDS_ACCEPTOR_H
#define NET_SHARDS_ACCEPTOR_H

#include "net/shards/listener.h"

struct retirement;

enum acceptor_kind {
    ACCEPTOR_OWN,     /* of this worker's slot */
    ACCEPTOR_COMMON,  /* of a set that has one socket for all workers */
    ACCEPTOR_SIBLING, /* of another slot, whose worker may be busy */
    ACCEPTOR_RETIRED, /* of a retired slot, adopted: the descriptor is owned */
};

struct acceptor {
    struct acceptor *next;
    struct event_source source;
    struct listener *listener;
    enum acceptor_kind kind;
    unsigned slot;
    unsigned confidence; /* that a second connection waits after the first; saturating */
    unsigned probe;      /* counts events, to look for a second connection without confidence */
    /* SIBLING: the slot's `order` when this worker queued up after the slot's worker */
    uint32_t order;
    struct retirement *retirement; /* RETIRED: owned; else NULL */
};

/* All acceptors of this worker. */
extern struct acceptor *acceptors;

/* Adds an acceptor; fd is owned if it is RETIRED. It is not watched yet. NULL: no memory. */
struct acceptor *acceptor_new(struct listener *listener, enum acceptor_kind kind, unsigned slot,
                              int fd);
void acceptor_free(struct acceptor *acceptor);

/* Registers all acceptors from which this worker accepts now with the loop, or unregisters them. */
void acceptors_watch(void);
void acceptors_unwatch(void);
/* Accepts all that waits at the sockets of this worker's group, watched or not. Gives the number of
 * connections. */
unsigned acceptors_drain(void);
/* Registers a new acceptor with the loop, if this worker accepts now. False: the error is
 * logged. */
bool acceptor_watch(struct acceptor *acceptor);

#endif
