/* What the files of this package share; private to it. */
#ifndef NET_DATAGRAM_PRIVATE_H
#define NET_DATAGRAM_PRIVATE_H

#include "event/loop.h"
#include "net/datagram/flow.h"
#include "net/datagram/table.h"
#include "net/shards/listener.h"

/* An address of this worker. Lives until the process ends, or in one process a reload drops the
 * address. */
struct datagram_port {
    struct datagram_port *next;
    struct listener *listener; /* of the configuration in force */
    uint32_t set;              /* number of its shard set */
    struct addr addr;          /* of the set */
    bool is_wildcard; /* clients may have asked several addresses: each datagram tells which */
    bool is_segmenting_refused; /* the kernel did not cut one buffer into datagrams */
    unsigned slot;              /* whose socket it reads */
    struct event_source source; /* the slot's socket while it reads, not owned; fd -1 afterwards */
    int send_fd; /* what answers leave by: the slot's socket, or, when it reads no more, first_fd */
    uint32_t
        lost; /* datagrams of source that the kernel has dropped: those that the taker knows of */
    int first_fd; /* copy of the first slot's socket, which stays while the address is served;
                     owned; -1 */
};

/* A datagram that came for one of our addresses. */
struct datagram {
    struct datagram_key key;
    struct addr peer;
    struct str bytes;
    unsigned ecn; /* the two bits of the IP header, where the listener has a taker */
};

extern struct datagram_port *datagram_ports;

/* ---- flow.c ---- */

/*
 * To the flow that it belongs to: of this worker, or of another one that it is passed on to (unless
 * it was already), or a new one.
 */
void datagram_deliver(struct datagram_port *port, const struct datagram *datagram, bool was_passed);
/* Ends all flows of the port, or of all for NULL. */
void datagram_flows_end(const struct datagram_port *port, enum datagram_end why);
/* No flow begins in this worker any more. */
extern bool datagrams_have_stopped;
void datagram_flows_free(void);

/* ---- taken.c ---- */

/* To the taker of the port's listener. */
void datagram_take(struct datagram_port *port, const struct datagram *datagram, bool was_passed);

/* ---- output.c ---- */

/* Sends what waits, if it leaves by that port; NULL: any. */
void datagram_output_flush(const struct datagram_port *port);
/* Nothing is reported of this flow any more. */
void datagram_output_end(void);

/* ---- directory.c: which worker has which flow, in memory that all processes share ---- */

/* Makes it, once, in the first process. False with errno. */
bool directory_make(void);
/* The worker that has it; 0 = unknown. */
uint32_t directory_find(uint64_t hash);
/* The worker that has the flow; if none has, it belongs to `me` from now on. */
uint32_t directory_claim(uint64_t hash, uint32_t me);
/* The same, though another one had it, who is gone. */
void directory_seize(uint64_t hash, uint32_t former, uint32_t me);
/* This worker has it from now on, whichever had it. */
void directory_take(uint64_t hash, uint32_t me);
/* It ends. */
void directory_leave(uint64_t hash, uint32_t me);
/* Lengths of the ids that were learned (identity.c), by all: a bit for each. Below 32. */
void directory_note_length(unsigned length);
uint32_t directory_lengths(void);

/* ---- identity.c: flows by the ids that backends gave their clients */

/* The answer may say what the client will call itself. */
void identity_learn(struct datagram_flow *flow, struct str answer);
/* The flow whose id a client's datagram bears; NULL: none of this worker, *elsewhere says of which
 * one, or 0. */
struct datagram_flow *identity_find(const struct datagram_port *port, struct str datagram,
                                    uint32_t *elsewhere);
/* The flow ends. */
void identity_forget(struct datagram_flow *flow);
void identities_free(void);

/* ---- mailbox.c ---- */

/* This worker's own number: 1 or more; 0 = it has none. */
extern uint32_t mailbox_own;
/* In a worker after fork: reads the mailbox of its slot, closes those of others. False with errno.
 */
bool mailbox_start(uint32_t generation, unsigned slot);
void mailbox_stop(void);
/* Passes a datagram on, at the end of this turn; false: that worker is gone. */
bool mailbox_pass(uint32_t to, const struct datagram *datagram);
void mailboxes_flush(void);

#endif
