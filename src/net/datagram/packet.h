/* Datagrams that a listener takes one by one, without flows: for a protocol that has connections of
 * its own (QUIC). Implemented in flow.c, mailbox.c and taken.c. */
#ifndef NET_DATAGRAM_PACKET_H
#define NET_DATAGRAM_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "net/addr/addr.h"

struct datagram;
struct datagram_port;
struct listener;

struct datagram_packet {
    struct addr peer;
    struct addr local; /* the address that was asked */
    struct str bytes;  /* memory that may be written to; gone after the call */
    unsigned ecn;      /* the two bits of the IP header */
    bool was_passed;   /* another worker read it, and did not know what to do with it */
    const struct datagram *datagram; /* for datagram_pass_on */
};

/* What takes them: listener->taker. On the loop's stack. */
struct datagram_taker {
    void (*packet)(struct datagram_port *port, const struct datagram_packet *packet);
    /* The port ends: its address is served no longer, or this worker ends. */
    void (*ended)(struct datagram_port *port);
    /* So many datagrams were dropped by the kernel, since the socket's receive buffer was full. */
    void (*lost)(struct datagram_port *port, uint32_t count);
};

/* The listener of the configuration in force in this worker. */
struct listener *datagram_port_listener(const struct datagram_port *port);
/* What answers leave by; it changes when a newer worker reads. -1: by nothing. */
int datagram_port_fd(const struct datagram_port *port);
/* Answers have to say which address of ours they come from. */
bool datagram_port_is_wildcard(const struct datagram_port *port);
/* The slot whose socket it reads. */
unsigned datagram_port_slot(const struct datagram_port *port);

/* This worker's number, 1 or more; 0 = it has none. Numbers are used again when a worker is gone.
 */
uint32_t datagram_worker(void);
/* Gives the packet to another worker. False: it is gone. */
bool datagram_pass_on(const struct datagram_packet *packet, uint32_t worker);
/* Other workers, newer ones as well, may ask which worker has what a hash stands for; it works
 * without a note, too. */
void datagram_note(uint64_t hash);
void datagram_unnote(uint64_t hash);
/* 0: there is no note. One that is wrong has the number of any worker. */
uint32_t datagram_worker_noted(uint64_t hash);
/* No client begins at this worker any more. */
bool datagram_has_stopped(void);

#endif
