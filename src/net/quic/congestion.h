/* Congestion control: how many bytes may be in flight, and at what rate they leave. quic_cubic and
 * quic_bbr behind one interface; the recovery is the only caller, others read. Pure: time is an
 * argument, in microseconds. Implemented in pacer.c. */
#ifndef NET_QUIC_CONGESTION_H
#define NET_QUIC_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

/* A window does not grow beyond that: what is in flight may be memory of ours, and a peer that
 * acknowledges early makes it grow. Linux allows TCP connections between 4 and 16 MB. */
#define QUIC_WINDOW_MOST (16u * 1024 * 1024)

struct quic_congestion;
struct quic_sent;
struct quic_rtt;

/* What one ACK frame, or the timer of lost packets, reported. */
struct quic_sample {
    uint64_t now_us;
    uint64_t acked;          /* bytes that it acknowledged and that were in flight */
    uint64_t lost;           /* bytes that were found lost by it */
    uint64_t in_flight;      /* bytes before it */
    uint64_t newest_lost_us; /* when the newest of the lost packets was sent; 0: none was lost */
    uint64_t ce_sent_us; /* new CE marks: when the newest acknowledged packet was sent; else 0 */
    uint64_t rtt_us;     /* its RTT sample; 0: none */
    uint64_t min_rtt_us; /* of the connection */
    uint64_t smoothed_rtt_us;
    uint64_t newest_acked_us; /* when the newest acknowledged packet was sent; 0: none */
    /* The delivery rate (draft-ietf-ccwg-bbr, 4.1): bytes in an interval; interval 0: no sample. */
    uint64_t delivered;
    uint64_t interval_us;
    uint64_t
        prior_delivered;   /* bytes delivered when the packet that this is measured by was sent */
    uint64_t tx_in_flight; /* bytes in flight when it was sent */
    uint64_t lost_since;   /* bytes lost since it was sent */
    bool is_app_limited;   /* it was sent when the application limited the rate */
    bool is_round_start;   /* a round trip has passed since the last one */
};

/* One algorithm. */
struct quic_congestion_control {
    const char *name; /* "cubic", "bbr" */
    void (*init)(struct quic_congestion *c, uint64_t now_us);
    void (*sent)(struct quic_congestion *c, const struct quic_sent *sent,
                 uint64_t now_us); /* or NULL */
    /* One packet of those of the sample that follows. NULL: the sample is enough. */
    void (*lost)(struct quic_congestion *c, const struct quic_sent *sent, uint64_t now_us);
    void (*sample)(struct quic_congestion *c, const struct quic_sample *sample);
    /* RFC 9002, 7.6. */
    void (*persistent)(struct quic_congestion *c, uint64_t now_us);
    /* A packet that was reported as lost arrived after all. NULL: no matter. */
    void (*spurious)(struct quic_congestion *c, const struct quic_sent *sent, uint64_t now_us);
};

extern const struct quic_congestion_control quic_cubic; /* RFC 9438 with HyStart++ (RFC 9406) */
extern const struct quic_congestion_control quic_bbr;   /* draft-ietf-ccwg-bbr */

/* RFC 9438, RFC 9406. */
struct quic_cubic_state {
    uint64_t recovery_us;  /* packets sent up to then belong to the last reduction; 0: none */
    uint64_t epoch_us;     /* when growth by the cubic function began; 0: it has not */
    uint64_t counted_us;   /* the time of the last sample */
    double window_max;     /* bytes, before the last reduction */
    double window_est;     /* bytes, as Reno would have */
    double k;              /* seconds until the cubic function is at window_max */
    double growth;         /* bytes, less than one, that are not yet in the window */
    uint64_t prior_window; /* before the last reduction, for one that was spurious */
    uint64_t prior_threshold;
    double prior_window_max;
    uint32_t episode_lost; /* packets of the last reduction that did not arrive after all */
    bool is_new_episode;   /* losses were reported that call for a reduction */
    bool is_css;           /* HyStart++: conservative slow start */
    uint32_t css_rounds;   /* rounds spent in it */
    uint32_t round_samples;
    uint64_t round_min_us; /* least RTT of this round; UINT64_MAX: none */
    uint64_t last_min_us;  /* least RTT of the round before */
    uint64_t css_base_us;  /* least RTT of the round in which it began */
};

enum quic_bbr_phase {
    QUIC_BBR_STARTUP,
    QUIC_BBR_DRAIN,
    QUIC_BBR_DOWN, /* of ProbeBW, as the next three */
    QUIC_BBR_CRUISE,
    QUIC_BBR_REFILL,
    QUIC_BBR_UP,
    QUIC_BBR_PROBE_RTT,
};

/* Which acknowledgements arrive: of packets sent before, in or after a probe. */
enum quic_bbr_acks {
    QUIC_BBR_ACKS_OLD,
    QUIC_BBR_ACKS_REFILLING,
    QUIC_BBR_ACKS_STARTING,
    QUIC_BBR_ACKS_FEEDBACK,
    QUIC_BBR_ACKS_STOPPING,
};

/* draft-ietf-ccwg-bbr, 2; rates in bytes a second. UINT64_MAX in a bound: none. */
struct quic_bbr_state {
    enum quic_bbr_phase phase;
    enum quic_bbr_acks acks;
    uint64_t cycle_bw[2];        /* the most of the cycle of probing before, and of this one */
    uint64_t bw_shortterm;       /* bound by the losses since the last probe */
    uint64_t bw;                 /* the estimate */
    uint64_t bw_latest;          /* the most of this round */
    uint64_t inflight_latest;    /* bytes delivered in a round */
    uint64_t inflight_longterm;  /* bound by the losses of probes */
    uint64_t inflight_shortterm; /* bound by the losses since the last probe */
    uint64_t undo_bw;            /* the three bounds before the losses of this round */
    uint64_t undo_inflight;
    uint64_t undo_longterm;
    uint64_t loss_round_end; /* delivered bytes at which the round ends in which losses count */
    uint64_t full_bw;        /* the rate that must be exceeded by a quarter */
    uint32_t full_bw_rounds; /* in which it was not */
    bool is_full_bw_now;     /* in this probe */
    bool is_full_bw_reached; /* Startup is over */
    bool is_loss_in_round;
    bool is_loss_round_start;
    bool takes_samples; /* the losses of a probe are still to be judged */
    bool is_idle_restart;
    bool is_probe_rtt_expired;
    bool is_probe_rtt_round_done;
    uint32_t losses_in_round; /* of Startup: separate ones */
    uint64_t lost_in_round;   /* bytes */
    uint64_t last_lost;       /* number of the packet that was lost last */
    uint64_t extra_acked[2]; /* bytes more than the rate explains: of ten rounds before, of these */
    uint64_t extra_rounds;
    uint64_t extra_start_us;
    uint64_t extra_delivered;
    uint64_t min_rtt_us; /* of the last ten seconds; UINT64_MAX: none */
    uint64_t min_rtt_stamp_us;
    uint64_t probe_rtt_us; /* of the last five seconds */
    uint64_t probe_rtt_stamp_us;
    uint64_t probe_rtt_done_us; /* 0: the window is not yet that small */
    uint64_t cycle_stamp_us;    /* when the phase began */
    uint64_t wait_us;           /* until the next probe */
    uint64_t rounds_since_probe;
    uint64_t up_acked; /* bytes acknowledged of the next step */
    uint64_t up_step;  /* bytes for which inflight_longterm grows by a datagram */
    uint32_t up_rounds;
    uint64_t prior_window; /* before ProbeRTT or persistent congestion */
    uint64_t random;
};

struct quic_congestion {
    const struct quic_congestion_control *control;
    uint32_t datagram;    /* bytes of a full datagram */
    bool is_slow_start;   /* the window still grows exponentially (slow start, or Startup of BBR) */
    bool is_app_limited;  /* since the last packets were sent */
    uint64_t window;      /* bytes that may be in flight */
    uint64_t threshold;   /* of slow start; UINT64_MAX: none */
    uint64_t in_flight;   /* bytes; counted by the recovery */
    uint64_t pacing_rate; /* bytes a second; 0: not limited */
    /* Delivery rate, counted by the recovery. */
    uint64_t delivered;
    uint64_t delivered_us;
    uint64_t first_sent_us;
    uint64_t lost;
    uint64_t app_limited_until; /* delivered bytes up to which samples are limited by the
                                   application; 0: none is */
    uint64_t next_round;        /* delivered bytes at which the next round trip begins */
    uint64_t rounds;
    uint32_t reductions; /* how often the window was reduced */
    struct quic_cubic_state cubic;
    struct quic_bbr_state *bbr; /* owned; NULL with quic_cubic: most connections */
    /* The pacer: a bucket of tokens. */
    uint64_t pacer_us;    /* when tokens were last counted */
    uint64_t pacer_bytes; /* tokens then */
    uint64_t pacer_rest;  /* millionths of a token */
};

/* The window of the start, 10 datagrams (RFC 9002, 7.2), and the state of the algorithm. `control`
 * and `datagram` are set. */
void quic_congestion_init(struct quic_congestion *c, uint64_t now_us);
void quic_congestion_free(struct quic_congestion *c);
/* RFC 9002, 7.2: two datagrams. */
uint64_t quic_congestion_least(const struct quic_congestion *c);

/* Bytes that may leave now: at most 10 datagrams, or 1 ms of the rate, at a time. */
uint64_t quic_pacer_tokens(struct quic_congestion *c, uint64_t now_us);
void quic_pacer_spend(struct quic_congestion *c, uint64_t bytes, uint64_t now_us);
/* When there are tokens for a datagram. */
uint64_t quic_pacer_ready_us(struct quic_congestion *c, uint64_t now_us);

#endif
