/* What the two files of BBR share: the model of the path, and the machine that probes it.
 * Implemented in bbr_model.c. */
#ifndef NET_QUIC_BBR_H
#define NET_QUIC_BBR_H

#include "net/quic/congestion.h"

#define BBR_NONE UINT64_MAX
#define BBR_LOSS_PERCENT 2u /* of a round, that is too much */
#define BBR_BETA 0.7

void bbr_model_init(struct quic_congestion *c, uint64_t now_us);
/* Rates, bounds, aggregation and RTT after an ACK. */
void bbr_model_take(struct quic_congestion *c, const struct quic_sample *sample);
/* The signals of the round that begins; after the machine has looked at those of the last. */
void bbr_model_advance(struct quic_congestion *c, const struct quic_sample *sample);

/* The sample's delivery rate; 0: it has none. */
uint64_t bbr_rate(const struct quic_sample *sample);
uint64_t bbr_max_bw(const struct quic_congestion *c);
/* Bytes that a rate fills the path with, times `gain`; the initial window while there is no RTT. */
uint64_t bbr_product(const struct quic_congestion *c, uint64_t bw, double gain);
/* bbr_product with the extra that bursts need. */
uint64_t bbr_inflight(const struct quic_congestion *c, uint64_t bw, double gain);
/* What ACKs that come in lumps need more. */
uint64_t bbr_extra_acked(const struct quic_congestion *c);
/* The long-term bound with room for others; BBR_NONE: none. */
uint64_t bbr_headroom(const struct quic_congestion *c);
uint64_t bbr_least(const struct quic_congestion *c);

void bbr_reset_shortterm(struct quic_congestion *c);
void bbr_reset_signals(struct quic_congestion *c);
void bbr_reset_full_bw(struct quic_congestion *c, uint64_t bw);
void bbr_advance_max_bw(struct quic_congestion *c);
bool bbr_is_probing(
    const struct quic_congestion *c); /* the phase fills the path: losses do not bound it */
bool bbr_is_in_probe_bw(const struct quic_congestion *c);

#endif
