/* BBR's model of the path: rate, RTT, bounds by losses, aggregation of ACKs
 * (draft-ietf-ccwg-bbr, 5.5). */
#include "net/quic/bbr.h"

#define BBR_HEADROOM_PERCENT 15u
#define BBR_LEAST_DATAGRAMS 4u
#define BBR_MIN_RTT_US 10000000u
#define BBR_PROBE_RTT_EVERY_US 5000000u
#define BBR_EXTRA_ROUNDS                                                                           \
    10u /* window of the maximum filter of aggregated ACKs (the draft's ExtraAckedFilterLen) */
#define BBR_FULL_BW_ROUNDS 3u

void bbr_model_init(struct quic_congestion *c, uint64_t now_us)
{
    struct quic_bbr_state *bbr = c->bbr;

    bbr->min_rtt_us = bbr->probe_rtt_us = BBR_NONE;
    bbr->min_rtt_stamp_us = bbr->probe_rtt_stamp_us = now_us;
    bbr->extra_start_us = now_us;
    bbr->inflight_longterm = BBR_NONE;
    bbr_reset_signals(c);
    bbr_reset_shortterm(c);
}

/* ---- figures ---- */

uint64_t bbr_rate(const struct quic_sample *sample)
{
    return sample->interval_us == 0 ? 0 : sample->delivered * 1000000u / sample->interval_us;
}

uint64_t bbr_max_bw(const struct quic_congestion *c)
{
    const uint64_t *bw = c->bbr->cycle_bw;

    return bw[0] > bw[1] ? bw[0] : bw[1];
}

uint64_t bbr_least(const struct quic_congestion *c)
{
    return (uint64_t) BBR_LEAST_DATAGRAMS * c->datagram;
}

uint64_t bbr_product(const struct quic_congestion *c, uint64_t bw, double gain)
{
    if (c->bbr->min_rtt_us == BBR_NONE || bw == 0) {
        return 10ull * c->datagram;
    }
    return (uint64_t) (gain * (double) bw * (double) c->bbr->min_rtt_us / 1e6);
}

uint64_t bbr_inflight(const struct quic_congestion *c, uint64_t bw, double gain)
{
    uint64_t inflight = bbr_product(c, bw, gain);
    uint64_t burst =
        3 * (c->pacing_rate / 1000 > 2u * c->datagram ? c->pacing_rate / 1000 : 2ull * c->datagram);

    inflight = inflight > burst ? inflight : burst;
    inflight = inflight > bbr_least(c) ? inflight : bbr_least(c);
    return c->bbr->phase == QUIC_BBR_UP ? inflight + 2ull * c->datagram : inflight;
}

uint64_t bbr_extra_acked(const struct quic_congestion *c)
{
    const uint64_t *extra = c->bbr->extra_acked;

    return extra[0] > extra[1] ? extra[0] : extra[1];
}

uint64_t bbr_headroom(const struct quic_congestion *c)
{
    if (c->bbr->inflight_longterm == BBR_NONE) {
        return BBR_NONE;
    }
    uint64_t room = c->bbr->inflight_longterm * BBR_HEADROOM_PERCENT / 100;
    room = room > c->datagram ? room : c->datagram;
    return c->bbr->inflight_longterm > room + bbr_least(c) ? c->bbr->inflight_longterm - room
                                                           : bbr_least(c);
}

bool bbr_is_in_probe_bw(const struct quic_congestion *c)
{
    return c->bbr->phase >= QUIC_BBR_DOWN && c->bbr->phase <= QUIC_BBR_UP;
}

bool bbr_is_probing(const struct quic_congestion *c)
{
    return c->bbr->phase == QUIC_BBR_STARTUP || c->bbr->phase == QUIC_BBR_REFILL ||
           c->bbr->phase == QUIC_BBR_UP;
}

/* ---- beginning again ---- */

void bbr_reset_shortterm(struct quic_congestion *c)
{
    c->bbr->bw_shortterm = c->bbr->inflight_shortterm = BBR_NONE;
}

void bbr_reset_signals(struct quic_congestion *c)
{
    c->bbr->is_loss_in_round = false;
    c->bbr->bw_latest = c->bbr->inflight_latest = 0;
}

void bbr_reset_full_bw(struct quic_congestion *c, uint64_t bw)
{
    c->bbr->full_bw = bw;
    c->bbr->full_bw_rounds = 0;
    c->bbr->is_full_bw_now = false;
}

void bbr_advance_max_bw(struct quic_congestion *c)
{
    if (c->bbr->cycle_bw[1] != 0) {
        c->bbr->cycle_bw[0] = c->bbr->cycle_bw[1];
        c->bbr->cycle_bw[1] = 0;
    }
}

/* ---- after an ACK ---- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void bbr_take_rate(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_bbr_state *bbr = c->bbr;
    uint64_t rate = bbr_rate(sample);

    bbr->is_loss_round_start = false;
    if (sample->newest_acked_us == 0) {
        return;
    }
    bbr->bw_latest = larger(bbr->bw_latest, rate);
    bbr->inflight_latest = larger(bbr->inflight_latest, sample->delivered);
    if (sample->prior_delivered >= bbr->loss_round_end) {
        bbr->loss_round_end = c->delivered;
        bbr->is_loss_round_start = true;
    }
    bbr->rounds_since_probe += sample->is_round_start;
    if (rate >= bbr_max_bw(c) || !sample->is_app_limited) {
        bbr->cycle_bw[1] = larger(bbr->cycle_bw[1], rate);
    }
}

/* At the end of a round with losses, when no probe runs: what was delivered bounds what is sent. */
static void bbr_lower_bounds(struct quic_congestion *c)
{
    struct quic_bbr_state *bbr = c->bbr;

    if (!bbr->is_loss_round_start) {
        return;
    }
    if (bbr->is_loss_in_round && !bbr_is_probing(c)) {
        if (bbr->bw_shortterm == BBR_NONE) {
            bbr->bw_shortterm = bbr_max_bw(c);
            bbr->inflight_shortterm = c->window;
        }
        bbr->bw_shortterm =
            larger(bbr->bw_latest, (uint64_t) (BBR_BETA * (double) bbr->bw_shortterm));
        bbr->inflight_shortterm =
            larger(bbr->inflight_latest, (uint64_t) (BBR_BETA * (double) bbr->inflight_shortterm));
    }
    bbr->is_loss_in_round = false;
}

static void bbr_take_aggregation(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_bbr_state *bbr = c->bbr;
    uint64_t expected = bbr->bw * (sample->now_us - bbr->extra_start_us) / 1000000u;

    if (bbr->extra_delivered <= expected) {
        bbr->extra_delivered = expected = 0;
        bbr->extra_start_us = sample->now_us;
    }
    bbr->extra_delivered += sample->acked;
    uint64_t extra = bbr->extra_delivered - expected;
    bbr->extra_rounds += sample->is_round_start;
    if (bbr->extra_rounds >= (bbr->is_full_bw_reached ? BBR_EXTRA_ROUNDS : 1)) {
        bbr->extra_rounds = 0;
        bbr->extra_acked[0] = bbr->extra_acked[1];
        bbr->extra_acked[1] = 0;
    }
    bbr->extra_acked[1] = larger(bbr->extra_acked[1], extra < c->window ? extra : c->window);
}

/* Whether the rate has stopped to grow by a quarter a round. */
static void bbr_judge_full_bw(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_bbr_state *bbr = c->bbr;
    uint64_t rate = bbr_rate(sample);

    if (bbr->is_full_bw_now || !sample->is_round_start || sample->is_app_limited || rate == 0) {
        return;
    }
    if (rate >= bbr->full_bw + bbr->full_bw / 4) {
        bbr_reset_full_bw(c, rate);
        return;
    }
    bbr->is_full_bw_now = ++bbr->full_bw_rounds >= BBR_FULL_BW_ROUNDS;
    bbr->is_full_bw_reached = bbr->is_full_bw_reached || bbr->is_full_bw_now;
}

static void bbr_take_rtt(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_bbr_state *bbr = c->bbr;
    uint64_t now_us = sample->now_us;

    bbr->is_probe_rtt_expired = now_us > bbr->probe_rtt_stamp_us + BBR_PROBE_RTT_EVERY_US;
    if (sample->rtt_us != 0 && (sample->rtt_us < bbr->probe_rtt_us || bbr->is_probe_rtt_expired)) {
        bbr->probe_rtt_us = sample->rtt_us;
        bbr->probe_rtt_stamp_us = now_us;
    }
    if (bbr->probe_rtt_us < bbr->min_rtt_us || now_us > bbr->min_rtt_stamp_us + BBR_MIN_RTT_US) {
        bbr->min_rtt_us = bbr->probe_rtt_us;
        bbr->min_rtt_stamp_us = bbr->probe_rtt_stamp_us;
    }
}

void bbr_model_take(struct quic_congestion *c, const struct quic_sample *sample)
{
    bbr_take_rate(c, sample);
    bbr_lower_bounds(c);
    bbr_take_aggregation(c, sample);
    bbr_judge_full_bw(c, sample);
    bbr_take_rtt(c, sample);
}

void bbr_model_advance(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_bbr_state *bbr = c->bbr;
    uint64_t max_bw = bbr_max_bw(c);

    if (bbr->is_loss_round_start) {
        bbr->bw_latest = bbr_rate(sample);
        bbr->inflight_latest = sample->delivered;
    }
    bbr->bw = max_bw < bbr->bw_shortterm ? max_bw : bbr->bw_shortterm;
}
