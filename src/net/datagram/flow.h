/* Flows: the datagrams between one client and one of our addresses, and what a worker does to take
 * part in them. Implemented in flow.c, mailbox.c, output.c and port.c. */
#ifndef NET_DATAGRAM_FLOW_H
#define NET_DATAGRAM_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/str.h"
#include "net/addr/addr.h"
#include "net/datagram/table.h"

struct identity;
struct listener;
struct datagram_port;

#define DATAGRAM_MOST 65535u /* bytes in one */

/* What tells flows apart: two are the same if all bytes are. */
struct datagram_key {
    unsigned char
        peer[16]; /* the client's address; of a unix socket a hash of its path; where the listener
                     has keys of its own a hash of the key, and the port and scope are zero */
    unsigned char
        local[16];  /* the address that was asked, where the listener's is a wildcard; else zero */
    uint32_t scope; /* of the client's address, if it is of one connection only */
    uint32_t set;   /* number of the shard set */
    uint16_t peer_port;
    uint16_t family;
    uint32_t pad;
};

/* Why a flow ends, other than by its owner's will. */
enum datagram_end {
    DATAGRAM_EVICTED,  /* others need the place, and this client has never come back after an answer
                        */
    DATAGRAM_SHUTDOWN, /* this worker, or the address, serves no longer */
};

struct datagram_flow;

/* Called on the loop's stack; each may close the flow. */
struct datagram_owner {
    /* One more from the client; perhaps empty. The bytes are gone after the call. */
    void (*received)(struct datagram_flow *flow, struct str datagram);
    /* One could not be sent (errno); reported at the end of the turn, never from inside
     * datagram_send. The flow continues unless it is closed. */
    void (*failed)(struct datagram_flow *flow, int error);
    /* The flow ends, and is closed after the call if the owner did not do it. */
    void (*ended)(struct datagram_flow *flow, enum datagram_end why);
    /* The client speaks from another address, which is flow->peer while it is asked. False: what it
     * says from there is dropped. NULL: always. The flow may not be closed in it. */
    bool (*moves)(struct datagram_flow *flow);
};

#define DATAGRAM_FLOW_MAGIC 0xf1080a7eu

/* From a pool, never given back to the system: `life` tells across a callback whether it is still
 * the same. */
struct datagram_flow {
    uint32_t magic; /* DATAGRAM_FLOW_MAGIC */
    uint32_t life;  /* raised when it is closed */
    const struct datagram_owner
        *owner; /* set by listener->began; else the flow is closed after that call */
    void *user; /* the owner's */
    struct datagram_port *port; /* where its client speaks to us */
    struct hashed entry;        /* by the hash of the key; in no table: of the pool */
    struct list node;           /* of those that may give way, oldest first, or of the others */
    struct identity *ids;       /* what its client may call itself, newest first; owned */
    size_t credit;              /* bytes that it may be sent where it moved to, while is_unproved */
    struct datagram_key key;
    struct addr peer;
    bool was_answered; /* something was sent to the client, where it is now */
    bool is_unproved;  /* it moved, and has not spoken again from there after an answer */
    bool is_unbound;   /* no more comes: see datagram_unbind */
    bool is_settled;   /* and the client spoke again after that: so it is where it says to be */
};

/* The address that the client asked: of the listener, or the one of its wildcard. */
void datagram_flow_local(const struct datagram_flow *flow, struct addr *local);

/*
 * Sends one datagram to the client, from the address that it asked, at the end of this turn of the
 * loop at the latest. Copies. What the kernel does not take for long is dropped and counted, as
 * networks do. At most DATAGRAM_MOST bytes. False: it is dropped, since the client came to its
 * address by a key or an id, and has not proved yet to be there: until it speaks again after an
 * answer, it gets three times what it sent from there (as RFC 9000, 8.1, has it).
 */
bool datagram_send(struct datagram_flow *flow, struct str datagram);

/* The client's next datagram begins another flow; this one can send until it is closed. */
void datagram_unbind(struct datagram_flow *flow);

/* Forgets the flow; what was sent leaves. Its next datagram begins a new one. */
void datagram_close(struct datagram_flow *flow);

/* Those of this worker. */
size_t datagram_flows(void);

/* Of this worker, since it began. */
struct datagram_counts {
    uint64_t received;  /* datagrams of clients */
    uint64_t sent;      /* datagrams sent to clients */
    uint64_t begun;     /* flows */
    uint64_t evicted;   /* flows that gave way to others */
    uint64_t moved;     /* times that a client came from another address */
    uint64_t refused;   /* datagrams of new clients for whom there was no place */
    uint64_t passed_on; /* to the worker that has the flow */
    uint64_t taken;     /* datagrams taken from the workers that read them */
    uint64_t dropped;   /* that the kernel, or another worker, did not take */
    uint64_t reads;     /* system calls that read datagrams of clients */
    uint64_t writes;    /* system calls that wrote datagrams to clients */
};
extern struct datagram_counts datagram_counts;

/* ---- in the master ---- */

/*
 * Before workers of a generation start: memory that tells which worker has which flow, and a
 * mailbox for each slot, by which a worker gets datagrams of its flows that others have read. Does
 * nothing if no listener is for datagrams, or it has been done. Failures are logged; flows may then
 * break at a reload.
 */
void datagram_mailboxes_open(const struct listener *listeners, uint32_t generation, unsigned slots);
/* The last worker of that slot of that generation has ended. */
void datagram_mailbox_close(uint32_t generation, unsigned slot);
void datagram_mailboxes_close_all(void);

/* ---- in a worker ---- */

/*
 * Reads the datagrams of this slot from now on; an older worker of the slot stops when it sees
 * that. In the same process after a reload: takes over the addresses that both have, and ends the
 * flows of the others. False with errno logged.
 */
bool datagrams_start(struct listener *listeners, uint32_t generation, unsigned slot);

enum datagram_stop {
    DATAGRAMS_ENDED,    /* all flows and what takers have end */
    DATAGRAMS_REPLACED, /* newer workers read, and pass on what belongs to this one: it stays while
                           the address is served */
    DATAGRAMS_UPGRADED, /* newer workers of another binary do so for takers; flows end */
};
/* Nothing new begins, and nothing is read. */
void datagrams_stop(enum datagram_stop why);
/*
 * The service quits: flows end. What a taker has begun continues, on the sockets of this worker,
 * which nothing else reads; it takes nothing new (datagram_has_stopped).
 */
void datagrams_quit(void);
/* Ends all flows. */
void datagrams_abort(void);
/* The end of the process: flows that are left end, what is open is closed. */
void datagrams_destroy(void);

/*
 * Reads from fd (owned from now on, closed on failure) too: the socket of a slot that retires, or
 * whose worker is blocked, until nothing came there for 50 ms; then closes it and calls done(arg)
 * (not when datagrams_stop or datagram_return come first). A slot that is adopted already stays so.
 * False with errno.
 */
bool datagram_adopt(struct listener *listener, unsigned slot, int fd, void (*done)(void *),
                    void *arg);
/* Gives back what was adopted, since the slot is wanted again. */
void datagram_return(struct listener *listener, unsigned slot);

#endif
