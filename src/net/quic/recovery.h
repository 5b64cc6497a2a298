/*
 * Loss detection (RFC 9002): what was sent, what of it arrived, when to probe. Pure: time is an
 * argument, in microseconds of a monotonic clock that is never 0; nothing is sent here.
 *
 * The connection, for each packet that asks for an acknowledgement:
 *     number = quic_recovery_number(r, space)       also for packets that ask for none
 *     sent = quic_sent_new(r); quic_sent_carry(r, sent, …) for each frame; sent->size = …
 *     quic_recovery_sent(r, space, sent, now)       or quic_sent_drop(r, sent)
 * For each ACK frame: quic_recovery_ack. After each of these, and after quic_recovery_expired: one
 * timer at quic_recovery_deadline. What may be sent now: quic_recovery_allowance and
 * quic_recovery_probes. Implemented in recovery.c, acks.c and sent.c.
 */
#ifndef NET_QUIC_RECOVERY_H
#define NET_QUIC_RECOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "net/quic/congestion.h"
#include "net/quic/ranges.h"

#define QUIC_NEVER UINT64_MAX /* a deadline that is not there */
#define QUIC_SENT_MOST 65536u /* packets of a connection that wait for their acknowledgement */
#define QUIC_INITIAL_RTT_US 333000u /* RFC 9002, 6.2.2 */
#define QUIC_GRANULARITY_US 1000u   /* of timers */
#define QUIC_REORDERING 3u          /* packets (RFC 9002, 6.1.1) */
#define QUIC_REORDER_SHIFT 3u       /* an eighth of the RTT (6.1.2) */
#define QUIC_SKIPPED_KEPT 8u        /* packet numbers that were left out */

enum quic_space { QUIC_SPACE_INITIAL, QUIC_SPACE_HANDSHAKE, QUIC_SPACE_APPLICATION, QUIC_SPACES };

/* What a packet carried that must be sent again when it is lost, or of which the acknowledgement is
 * of interest. */
enum quic_carried_kind {
    QUIC_CARRIED_PING,                /* nothing to repeat; never reported */
    QUIC_CARRIED_ACK,                 /* id: the largest number that the ACK frame named */
    QUIC_CARRIED_CRYPTO,              /* offset, len */
    QUIC_CARRIED_STREAM,              /* id, offset, len, is_fin */
    QUIC_CARRIED_RESET_STREAM,        /* id */
    QUIC_CARRIED_STOP_SENDING,        /* id */
    QUIC_CARRIED_MAX_DATA,            /* offset: the limit */
    QUIC_CARRIED_MAX_STREAM_DATA,     /* id; offset: the limit */
    QUIC_CARRIED_MAX_STREAMS,         /* id: 0 bidirectional, 1 unidirectional; offset: the limit */
    QUIC_CARRIED_DATA_BLOCKED,        /* offset: the limit */
    QUIC_CARRIED_STREAM_DATA_BLOCKED, /* id; offset: the limit */
    QUIC_CARRIED_STREAMS_BLOCKED,     /* as MAX_STREAMS */
    QUIC_CARRIED_NEW_TOKEN,
    QUIC_CARRIED_NEW_CONNECTION_ID,    /* id: its sequence number */
    QUIC_CARRIED_RETIRE_CONNECTION_ID, /* id: the sequence number */
    QUIC_CARRIED_PATH_CHALLENGE,       /* id, offset: of the caller's choice */
    QUIC_CARRIED_PATH_RESPONSE,
    QUIC_CARRIED_HANDSHAKE_DONE,
    QUIC_CARRIED_DATAGRAM,      /* id: of the caller's choice */
    QUIC_CARRIED_ACK_FREQUENCY, /* id: its sequence number */
    QUIC_CARRIED_MTU_PROBE, /* len: the size of the datagram. Its loss is no sign of congestion */
    QUIC_CARRIED_OTHER,     /* extensions; id, offset: of the caller's choice */
};

struct quic_carried {
    uint8_t kind; /* enum quic_carried_kind */
    bool is_fin;  /* STREAM: the end of the stream was in it */
    uint32_t len; /* bytes */
    uint64_t id;
    uint64_t offset;
};

#define QUIC_CARRIED_FEW 3u

/* Frames of a packet that has more than a few. */
struct quic_carried_more {
    struct quic_carried_more *next; /* or of the pool's free ones */
    struct quic_carried frames[QUIC_CARRIED_FEW];
};

/* A packet that asks for an acknowledgement and was sent. */
struct quic_sent {
    struct list link;   /* in its space, by number; in the pool */
    uint64_t number;    /* of the packet, from quic_recovery_number; set by the caller */
    uint64_t previous;  /* the packet before it in this space that asked for an acknowledgement */
    uint64_t time_us;   /* when it was sent */
    uint64_t delivered; /* bytes of the connection that had been acknowledged by then */
    uint64_t delivered_us;  /* when that had become so */
    uint64_t first_sent_us; /* the sending of the packet by which that had become so */
    uint64_t lost;          /* bytes that had been lost by then */
    uint32_t in_flight;     /* bytes, with this packet */
    uint32_t path;          /* number of the path */
    uint16_t size;          /* bytes of the packet on the wire without UDP; set by the caller */
    bool is_app_limited;    /* the application, not the window, limited what was sent */
    bool is_mtu_probe;      /* set by quic_sent_carry */
    bool is_ect;            /* it was marked ECT(0); set by the caller */
    uint16_t count;         /* frames carried */
    struct quic_carried_more *more; /* from the fourth on; owned */
    struct quic_carried frames[QUIC_CARRIED_FEW];
};

/* Memory for the packets of all connections of a worker; it grows and is never given back before
 * quic_sent_pool_free. */
struct quic_sent_pool {
    struct list free;               /* struct quic_sent */
    struct quic_carried_more *more; /* free ones */
    void *blocks;                   /* all memory, chained by its first word */
};

void quic_sent_pool_init(struct quic_sent_pool *pool);
/* No connection uses it any more. */
void quic_sent_pool_free(struct quic_sent_pool *pool);

/* An ACK frame, decoded. */
struct quic_ack {
    const struct quic_range
        *ranges;       /* in the frame's order, the highest first; at least one; disjoint */
    uint32_t count;    /* ranges; a decoder stops at a limit of its own */
    uint64_t delay_us; /* by the peer's exponent */
    bool has_ecn;
    uint64_t ect0; /* counts of the ACK_ECN frame */
    uint64_t ect1;
    uint64_t ce;
};

enum quic_ack_result {
    QUIC_ACK_OLD,    /* nothing new */
    QUIC_ACK_NEW,    /* something was acknowledged */
    QUIC_ACK_FORGED, /* a number that was never sent: PROTOCOL_VIOLATION (RFC 9000, 13.1 and 21.4)
                      */
};

/* How the owner hears what became of its frames. It may not call back into the recovery, except for
 * its queries. */
struct quic_recovery_owner {
    void (*acked)(void *owner, enum quic_space space, const struct quic_carried *frame);
    /* To be sent again, if it still matters. The packet is lost, or a probe repeats what it
     * carried: the acknowledgement may still come, and each frame may be reported more than once.
     */
    void (*lost)(void *owner, enum quic_space space, const struct quic_carried *frame);
};

struct quic_rtt {
    uint64_t latest_us; /* 0: no sample yet */
    uint64_t smoothed_us;
    uint64_t variance_us;
    uint64_t min_us;
    uint64_t first_sample_us; /* when it was taken; 0: none */
};

enum quic_ecn { QUIC_ECN_OFF, QUIC_ECN_TESTING, QUIC_ECN_CAPABLE, QUIC_ECN_FAILED };

struct quic_sent_space {
    struct list sent; /* struct quic_sent that are outstanding, by number */
    struct list lost; /* packets that were declared lost lately, by number: for acknowledgements
                         that come after all */
    uint32_t lost_count;
    uint32_t probes; /* packets to be sent without regard to the window */
    uint64_t next_number;
    uint64_t largest_acked;     /* QUIC_NEVER: none */
    uint64_t last_eliciting_us; /* when the last packet that asks for an acknowledgement was sent */
    uint64_t last_eliciting;    /* its number; QUIC_NEVER: none */
    uint64_t loss_us;           /* when the next packet is lost by time; QUIC_NEVER: none */
    uint64_t run_start_us;      /* lost packets one after the other: when the first was sent */
    uint64_t run_last;          /* the number of the last of them; QUIC_NEVER: none */
    uint64_t ect0, ce;          /* as last reported */
    bool is_discarded;
};

/* Numbers of the application space that are left out: who acknowledges one has not seen what he
 * says (RFC 9000, 21.4). */
struct quic_skips {
    uint64_t next; /* the next that is left out */
    uint64_t kept[QUIC_SKIPPED_KEPT];
    uint32_t count; /* in all */
};

struct quic_recovery {
    /* Set by the connection, at any time. */
    bool is_server;
    bool has_handshake_keys;     /* of the client, for its probes before anything is in flight */
    bool is_handshake_confirmed; /* RFC 9001, 4.1.2: the application space has its timer from then
                                    on */
    bool is_peer_validated;      /* the peer has no limit of three times any more, or needs none */
    bool is_amplification_limited; /* of a server: it may not send now, so no timer runs */
    uint64_t max_ack_delay_us;     /* of the peer's transport parameters; 25000 before */

    /* To be read. */
    struct quic_rtt rtt;
    struct quic_congestion congestion;
    uint32_t pto_count; /* probes in a row without an answer */
    enum quic_ecn ecn;  /* see quic_recovery_marks */
    uint64_t packets_lost;
    uint64_t packets_spurious; /* lost ones that were acknowledged after all */
    uint64_t bytes_sent;       /* of packets that ask for an acknowledgement */

    /* Private. */
    struct quic_sent_space spaces[QUIC_SPACES];
    struct quic_skips skips;
    struct quic_sent_pool *pool;
    const struct quic_recovery_owner *events;
    void *owner;
    uint64_t random;
    uint32_t outstanding; /* packets */
    uint32_t path;        /* number of the current path */
    uint32_t ecn_sent;    /* packets marked while testing */
    uint32_t ecn_lost;
    uint64_t last_event_us; /* when something was last sent, acknowledged or expired */
    uint32_t reordering;    /* packets; RFC 9002, 6.1.1; raised by spurious losses */
    uint32_t true_losses;   /* packets lost since one that was taken for lost arrived */
    uint32_t reorder_shift; /* a packet is lost after RTT + RTT >> this */
};

struct quic_recovery_setup {
    struct quic_sent_pool *pool;              /* not owned */
    const struct quic_recovery_owner *events; /* not owned */
    void *owner;
    const struct quic_congestion_control *control; /* quic_cubic or quic_bbr */
    uint64_t random;        /* that the peer cannot guess: which numbers are left out */
    uint32_t datagram_size; /* bytes, 1200 at first */
    bool is_server;
    bool has_ecn; /* the socket can mark and report */
};

void quic_recovery_init(struct quic_recovery *r, const struct quic_recovery_setup *setup,
                        uint64_t now_us);
/* Frames are not reported. */
void quic_recovery_free(struct quic_recovery *r);

/* The number of the next packet of the space. It is used, or wasted. Now and then it leaves one out
 * (RFC 9000, 21.4). */
uint64_t quic_recovery_number(struct quic_recovery *r, enum quic_space space);

/* A record for a packet that is being written. */
struct quic_sent *quic_sent_new(struct quic_recovery *r);
void quic_sent_carry(struct quic_recovery *r, struct quic_sent *sent,
                     const struct quic_carried *frame);
/* The packet was not sent. */
void quic_sent_drop(struct quic_recovery *r, struct quic_sent *sent);
/* It was sent; number, size and is_ect are set. The record is the recovery's from here on. Fits all
 * of these: the window, the pacer, a probe that was due. */
void quic_recovery_sent(struct quic_recovery *r, enum quic_space space, struct quic_sent *sent,
                        uint64_t now_us);

/* Reports what the frame acknowledges, and what is lost by it. */
enum quic_ack_result quic_recovery_ack(struct quic_recovery *r, enum quic_space space,
                                       const struct quic_ack *ack, uint64_t now_us);

/* When quic_recovery_expired is to be called; QUIC_NEVER: not at all. */
uint64_t quic_recovery_deadline(const struct quic_recovery *r);
/* Reports lost packets, or asks for probes and reports what they should repeat. Does nothing before
 * the deadline. */
void quic_recovery_expired(struct quic_recovery *r, uint64_t now_us);
/* Packets of the space that are to be sent at once, whatever the window: with the frames that were
 * reported as lost, with new ones, or with a PING. */
uint32_t quic_recovery_probes(const struct quic_recovery *r, enum quic_space space);

/* Whether the next packet is to be marked ECT(0): where it works, and the first ten to find that
 * out. */
bool quic_recovery_marks(const struct quic_recovery *r);

/* Bytes that window and pacer let go now; 0: none. At least one datagram otherwise. */
size_t quic_recovery_allowance(struct quic_recovery *r, uint64_t now_us);
/* After an allowance of 0: when the pacer lets the next datagram go; QUIC_NEVER: the window is
 * full, an ACK will tell. */
uint64_t quic_recovery_paced_until(struct quic_recovery *r, uint64_t now_us);
/* The connection had nothing more to send though it was allowed to: the window does not grow by
 * that. */
void quic_recovery_app_limited(struct quic_recovery *r);

/* PTO without back-off, for the other timers that are measured by it (RFC 9000, 8.2.4, 10.1, 10.2).
 */
uint64_t quic_recovery_pto_us(const struct quic_recovery *r);

/* The keys of the space are discarded (RFC 9002, 6.4): its packets are forgotten and no longer in
 * flight. */
void quic_recovery_discard(struct quic_recovery *r, enum quic_space space);
/* All packets of the space are reported as lost, without a sign of congestion: after a Retry
 * (Initial), when 0-RTT was refused (application; before any 1-RTT packet was sent). */
void quic_recovery_resend(struct quic_recovery *r, enum quic_space space);
/* The path is another one (RFC 9002, 9.4 of RFC 9000): RTT, window and ECN begin again; what is in
 * flight no longer counts. Not called where only the port of the peer changed. */
void quic_recovery_new_path(struct quic_recovery *r, uint64_t now_us);
/* Path MTU discovery found another size, bytes. */
void quic_recovery_datagram_size(struct quic_recovery *r, uint32_t size);

#endif
