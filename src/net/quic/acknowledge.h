/*
 * When an ACK frame is due, and what it says (RFC 9000, 13.2 and 13.4; draft-ietf-quic-ack-frequency). One in each packet number
 * space. Pure; time in microseconds.
 *
 * For each packet that was opened: a duplicate (quic_received_has) is dropped; then, when its frames were taken,
 * quic_acknowledge_packet. A packet that is not to be acknowledged (QUIC_RECEIVED_SCATTERED) is not reported here.
 * When a packet is written: quic_acknowledge_wants; if so, the ranges of `received` from the last to the first, as many as fit,
 * and quic_acknowledge_sent. A packet with nothing else is written when quic_acknowledge_is_due; the timer is at due_us.
 */
#ifndef NET_QUIC_ACKNOWLEDGE_H
#define NET_QUIC_ACKNOWLEDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/quic/ranges.h"
#include "net/quic/recovery.h"

#define QUIC_ACK_EVERY 2u /* packets (RFC 9000, 13.2.2) */

enum quic_ecn_mark { QUIC_NOT_ECT, QUIC_ECT1, QUIC_ECT0, QUIC_CE }; /* the bits of the IP header */

struct quic_acknowledge {
    struct quic_received received;
    uint64_t largest;    /* number; QUIC_NEVER: none */
    uint64_t largest_us; /* when it came */
    uint64_t reported;   /* the largest number of the last ACK frame; QUIC_NEVER: none */
    uint64_t due_us;     /* QUIC_NEVER: no ACK is due */
    uint32_t waiting;    /* packets that ask for an acknowledgement and were not reported */
    uint32_t every;      /* so many of them make an ACK due at once */
    uint32_t reordering; /* as does a number that has been missing for so many; 0: none does */
    uint64_t delay_us;   /* the longest that one waits: our max_ack_delay */
    uint64_t frequency;  /* sequence number of the last ACK_FREQUENCY frame + 1 */
    uint64_t ect0;       /* counts for the ACK_ECN frame; all 0: a plain one */
    uint64_t ect1;
    uint64_t ce;
};

/* `most`: ranges that are kept; delay_us: 0 for Initial and Handshake, which are acknowledged at once. */
void quic_acknowledge_init(struct quic_acknowledge *a, uint32_t most, uint64_t delay_us);
void quic_acknowledge_free(struct quic_acknowledge *a);

/* A new packet was received. */
void quic_acknowledge_packet(struct quic_acknowledge *a, uint64_t number, bool is_eliciting,
                             enum quic_ecn_mark mark, uint64_t now_us);
/* Whether a packet that is written anyway should carry an ACK frame. */
static inline bool quic_acknowledge_wants(const struct quic_acknowledge *a)
{
    return a->waiting != 0 || a->due_us != QUIC_NEVER;
}
static inline bool quic_acknowledge_is_due(const struct quic_acknowledge *a, uint64_t now_us)
{
    return a->due_us <= now_us;
}
/* For the frame's delay: since the largest came. */
uint64_t quic_acknowledge_delay_us(const struct quic_acknowledge *a, uint64_t now_us);
void quic_acknowledge_sent(struct quic_acknowledge *a);
/* An ACK frame with this largest number was acknowledged (QUIC_CARRIED_ACK). */
void quic_acknowledge_acked(struct quic_acknowledge *a, uint64_t number);

/* An ACK_FREQUENCY frame of the peer; one that is older than another is ignored. */
struct quic_ack_frequency {
    uint64_t sequence;
    uint64_t threshold; /* packets without an ACK */
    uint64_t delay_us;  /* requested max_ack_delay; not below what we announced as min_ack_delay */
    uint64_t reordering;
};
void quic_acknowledge_frequency(struct quic_acknowledge *a, const struct quic_ack_frequency *frame);
/* IMMEDIATE_ACK. */
void quic_acknowledge_at_once(struct quic_acknowledge *a, uint64_t now_us);

/*
 * What we ask of a peer that knows ACK_FREQUENCY: an ACK for an eighth of the window, and four in a round trip. False: nothing
 * that would be worth a frame has changed since *last, which it replaces.
 */
bool quic_ack_frequency_ask(struct quic_ack_frequency *last, const struct quic_recovery *r,
                            uint64_t min_ack_delay_us);

#endif
