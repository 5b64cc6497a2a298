/* BBR (draft-ietf-ccwg-bbr, version 3): the phases in which the path is probed, window and pace by
 * the model. */
#include "net/quic/bbr.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "net/quic/recovery.h"

#define BBR_PROBE_RTT_US 200000u
#define BBR_WAIT_US 2000000u /* between two probes, and up to a second more */
#define BBR_RENO_ROUNDS 63u
#define BBR_STARTUP_LOSSES 6u
#define BBR_MARGIN 0.99 /* of the rate, so that no queue stays */

/* Of the phases, in the order of the enum: rate and window, by the model's. */
static const struct bbr_gain {
    double pacing;
    double window;
} bbr_gains[] = {
    [QUIC_BBR_STARTUP] = {2.77, 2.0},  [QUIC_BBR_DRAIN] = {0.5, 2.0},  [QUIC_BBR_DOWN] = {0.9, 2.0},
    [QUIC_BBR_CRUISE] = {1.0, 2.0},    [QUIC_BBR_REFILL] = {1.0, 2.0}, [QUIC_BBR_UP] = {1.25, 2.25},
    [QUIC_BBR_PROBE_RTT] = {1.0, 0.5},
};

static void bbr_init(struct quic_congestion *c, uint64_t now_us)
{
    c->bbr = c->bbr != NULL ? c->bbr : malloc(sizeof(*c->bbr));
    if (c->bbr == NULL) {
        fatal_no_memory(sizeof(*c->bbr));
    }
    *c->bbr = (struct quic_bbr_state){.random = now_us | 1};
    bbr_model_init(c, now_us);
}

/* Spreads the probes of many connections. */
static uint64_t bbr_random(struct quic_congestion *c, uint64_t below)
{
    c->bbr->random = c->bbr->random * 6364136223846793005u + 1442695040888963407u;
    return (c->bbr->random >> 33) % below;
}

static void bbr_begin_round(struct quic_congestion *c)
{
    c->next_round = c->delivered;
}

/* ---- phases ---- */

static void bbr_start_down(struct quic_congestion *c, uint64_t now_us)
{
    struct quic_bbr_state *bbr = c->bbr;

    bbr_reset_signals(c);
    bbr->up_step = BBR_NONE;
    bbr->rounds_since_probe = bbr_random(c, 2);
    bbr->wait_us = BBR_WAIT_US + bbr_random(c, 1000000);
    bbr->cycle_stamp_us = now_us;
    bbr->acks = QUIC_BBR_ACKS_STOPPING;
    bbr->phase = QUIC_BBR_DOWN;
    bbr_begin_round(c);
}

static void bbr_start_refill(struct quic_congestion *c)
{
    struct quic_bbr_state *bbr = c->bbr;

    bbr_reset_shortterm(c);
    bbr->up_rounds = 0;
    bbr->up_acked = 0;
    bbr->acks = QUIC_BBR_ACKS_REFILLING;
    bbr->phase = QUIC_BBR_REFILL;
    bbr_begin_round(c);
}

/* The long-term bound rises by 1, 2, 4 … datagrams a round. */
static void bbr_steepen(struct quic_congestion *c)
{
    uint64_t growth = (uint64_t) c->datagram << c->bbr->up_rounds;

    c->bbr->up_rounds += c->bbr->up_rounds < 20;
    uint64_t step = c->window * c->datagram / growth;
    c->bbr->up_step = step > c->datagram ? step : c->datagram;
}

static void bbr_start_up(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_bbr_state *bbr = c->bbr;

    bbr->acks = QUIC_BBR_ACKS_STARTING;
    bbr->phase = QUIC_BBR_UP;
    bbr->takes_samples = true;
    bbr->cycle_stamp_us = sample->now_us;
    bbr_begin_round(c);
    bbr_reset_full_bw(c, bbr_rate(sample));
    bbr_steepen(c);
}

static bool bbr_starts_probe(struct quic_congestion *c, uint64_t now_us)
{
    struct quic_bbr_state *bbr = c->bbr;
    uint64_t inflight = bbr_product(c, bbr->bw, 1.0);
    uint64_t rounds = (inflight < c->window ? inflight : c->window) / c->datagram;

    rounds = rounds < BBR_RENO_ROUNDS ? rounds : BBR_RENO_ROUNDS; /* as often as Reno would */
    if (now_us > bbr->cycle_stamp_us + bbr->wait_us || bbr->rounds_since_probe >= rounds) {
        bbr_start_refill(c);
        return true;
    }
    return false;
}

/* The window is what limits, and at the bound. */
static bool bbr_is_at_bound(const struct quic_congestion *c, const struct quic_sample *sample)
{
    return sample->in_flight + 2ull * c->datagram >= c->window &&
           c->window >= c->bbr->inflight_longterm;
}

static void bbr_cycle(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_bbr_state *bbr = c->bbr;

    switch (bbr->phase) {
    case QUIC_BBR_DOWN:
        if (!bbr_starts_probe(c, sample->now_us) && c->in_flight <= bbr_headroom(c) &&
            c->in_flight <= bbr_inflight(c, bbr_max_bw(c), 1.0)) {
            bbr->phase = QUIC_BBR_CRUISE;
        }
        break;
    case QUIC_BBR_CRUISE:
        bbr_starts_probe(c, sample->now_us);
        break;
    case QUIC_BBR_REFILL:
        if (sample->is_round_start) {
            bbr_start_up(c, sample);
        }
        break;
    case QUIC_BBR_UP:
        if (bbr_is_at_bound(c, sample)) {
            bbr_reset_full_bw(c, bbr_rate(sample));
        } else if (bbr->is_full_bw_now) {
            bbr_start_down(c, sample->now_us);
        }
        break;
    default:
        break;
    }
}

/* ---- losses ---- */

/* What of a probe was too much becomes the long-term bound. */
static void bbr_too_high(struct quic_congestion *c, uint64_t inflight, bool is_app_limited,
                         uint64_t now_us)
{
    struct quic_bbr_state *bbr = c->bbr;
    uint64_t target = bbr_product(c, bbr->bw, 1.0);

    target = (uint64_t) (BBR_BETA * (double) (target < c->window ? target : c->window));
    bbr->takes_samples = false;
    if (!is_app_limited) {
        bbr->inflight_longterm = inflight > target ? inflight : target;
    }
    if (bbr->phase == QUIC_BBR_UP) {
        bbr_start_down(c, now_us);
    }
}

static bool bbr_is_too_much(uint64_t lost, uint64_t inflight)
{
    return lost * 100 > inflight * BBR_LOSS_PERCENT;
}

static void bbr_lost(struct quic_congestion *c, const struct quic_sent *sent, uint64_t now_us)
{
    struct quic_bbr_state *bbr = c->bbr;
    uint64_t lost = c->lost - sent->lost;

    if (!bbr->is_loss_in_round) {
        bbr->is_loss_in_round = true;
        bbr->loss_round_end = c->delivered;
        bbr->undo_bw = bbr->bw_shortterm;
        bbr->undo_inflight = bbr->inflight_shortterm;
        bbr->undo_longterm = bbr->inflight_longterm;
    }
    bbr->losses_in_round += sent->number != bbr->last_lost + 1;
    bbr->last_lost = sent->number;
    bbr->lost_in_round += sent->size;
    if (bbr->takes_samples && bbr_is_too_much(lost, sent->in_flight)) {
        /* As many bytes in flight as had not yet lost too many. */
        double before = (double) sent->in_flight - sent->size;
        double allowed = before * BBR_LOSS_PERCENT / 100 - ((double) lost - sent->size);
        double inflight = before + (allowed > 0 ? allowed / (1 - BBR_LOSS_PERCENT / 100.0) : 0);
        bbr_too_high(c, (uint64_t) inflight, sent->is_app_limited, now_us);
    }
}

static uint64_t bbr_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The bounds are as they were before the losses, which were none. */
static void bbr_spurious(struct quic_congestion *c, const struct quic_sent *sent, uint64_t now_us)
{
    struct quic_bbr_state *bbr = c->bbr;

    bbr->is_loss_in_round = false;
    bbr->losses_in_round = 0;
    bbr->lost_in_round = 0;
    bbr->bw_shortterm = bbr_larger(bbr->bw_shortterm, bbr->undo_bw);
    bbr->inflight_shortterm = bbr_larger(bbr->inflight_shortterm, bbr->undo_inflight);
    bbr->inflight_longterm = bbr_larger(bbr->inflight_longterm, bbr->undo_longterm);
}

static void bbr_upper_bounds(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_bbr_state *bbr = c->bbr;

    if (sample->is_round_start && bbr->acks == QUIC_BBR_ACKS_STARTING) {
        bbr->acks = QUIC_BBR_ACKS_FEEDBACK;
    } else if (sample->is_round_start && bbr->acks == QUIC_BBR_ACKS_STOPPING) {
        bbr->acks = QUIC_BBR_ACKS_OLD;
        bbr->takes_samples = false;
        if (bbr_is_in_probe_bw(c) && !sample->is_app_limited) {
            bbr_advance_max_bw(c);
        }
    }
    if (bbr_is_too_much(sample->lost_since, sample->tx_in_flight)) {
        if (bbr->takes_samples) {
            bbr_too_high(c, sample->tx_in_flight, sample->is_app_limited, sample->now_us);
        }
        return;
    }
    if (bbr->inflight_longterm == BBR_NONE) {
        return;
    }
    if (sample->tx_in_flight > bbr->inflight_longterm) {
        bbr->inflight_longterm = sample->tx_in_flight;
    }
    if (bbr->phase == QUIC_BBR_UP && bbr_is_at_bound(c, sample)) {
        bbr->up_acked += sample->acked;
        bbr->inflight_longterm += bbr->up_acked / bbr->up_step * c->datagram;
        bbr->up_acked %= bbr->up_step;
        if (sample->is_round_start) {
            bbr_steepen(c);
        }
    }
}

/* ---- Startup, Drain, ProbeRTT ---- */

/* Startup ends when the rate stops growing, or at a round with many losses. */
static void bbr_startup(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_bbr_state *bbr = c->bbr;

    if (bbr->is_loss_round_start && bbr->losses_in_round >= BBR_STARTUP_LOSSES &&
        bbr_is_too_much(bbr->lost_in_round, sample->tx_in_flight)) {
        uint64_t product = bbr_product(c, bbr_max_bw(c), 1.0);
        bbr->is_full_bw_reached = true;
        bbr->inflight_longterm = product > bbr->inflight_latest ? product : bbr->inflight_latest;
    }
    if (bbr->is_full_bw_reached) {
        bbr->phase = QUIC_BBR_DRAIN;
        c->is_slow_start = false;
    }
}

static void bbr_exit_probe_rtt(struct quic_congestion *c, uint64_t now_us)
{
    struct quic_bbr_state *bbr = c->bbr;

    bbr->probe_rtt_stamp_us = now_us;
    c->window = c->window > bbr->prior_window ? c->window : bbr->prior_window;
    bbr_reset_shortterm(c);
    if (bbr->is_full_bw_reached) {
        bbr_start_down(c, now_us);
        bbr->phase = QUIC_BBR_CRUISE;
    } else {
        bbr->phase = QUIC_BBR_STARTUP;
    }
}

static uint64_t bbr_probe_rtt_window(const struct quic_congestion *c)
{
    uint64_t window = bbr_product(c, c->bbr->bw, bbr_gains[QUIC_BBR_PROBE_RTT].window);

    return window > bbr_least(c) ? window : bbr_least(c);
}

static void bbr_probe_rtt(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_bbr_state *bbr = c->bbr;
    uint64_t now_us = sample->now_us;

    if (bbr->phase != QUIC_BBR_PROBE_RTT) {
        if (!bbr->is_probe_rtt_expired || bbr->is_idle_restart) {
            return;
        }
        bbr->prior_window = c->window;
        bbr->phase = QUIC_BBR_PROBE_RTT;
        bbr->probe_rtt_done_us = 0;
        bbr->acks = QUIC_BBR_ACKS_STOPPING;
        bbr_begin_round(c);
    }
    c->app_limited_until = c->delivered + c->in_flight == 0 ? 1 : c->delivered + c->in_flight;
    if (bbr->probe_rtt_done_us == 0) {
        if (c->in_flight <= bbr_probe_rtt_window(c)) {
            bbr->probe_rtt_done_us = now_us + BBR_PROBE_RTT_US;
            bbr->is_probe_rtt_round_done = false;
            bbr_begin_round(c);
        }
        return;
    }
    bbr->is_probe_rtt_round_done = bbr->is_probe_rtt_round_done || sample->is_round_start;
    if (bbr->is_probe_rtt_round_done && now_us > bbr->probe_rtt_done_us) {
        bbr_exit_probe_rtt(c, now_us);
    }
}

/* ---- window and pace ---- */

static void bbr_set_pace(struct quic_congestion *c, double gain)
{
    uint64_t rate = (uint64_t) (gain * (double) c->bbr->bw * BBR_MARGIN);

    if (rate != 0 && (c->bbr->is_full_bw_reached || rate > c->pacing_rate)) {
        c->pacing_rate = rate;
    }
}

/* The bounds of the model. */
static uint64_t bbr_cap(const struct quic_congestion *c)
{
    const struct quic_bbr_state *bbr = c->bbr;
    uint64_t cap = BBR_NONE;

    if (bbr->phase == QUIC_BBR_PROBE_RTT || bbr->phase == QUIC_BBR_CRUISE) {
        cap = bbr_headroom(c);
    } else if (bbr_is_in_probe_bw(c)) {
        cap = bbr->inflight_longterm;
    }
    cap = cap < bbr->inflight_shortterm ? cap : bbr->inflight_shortterm;
    if (bbr->phase == QUIC_BBR_PROBE_RTT && cap > bbr_probe_rtt_window(c)) {
        cap = bbr_probe_rtt_window(c);
    }
    return cap > bbr_least(c) ? cap : bbr_least(c);
}

static void bbr_set_window(struct quic_congestion *c, const struct quic_sample *sample)
{
    const struct quic_bbr_state *bbr = c->bbr;
    uint64_t most = bbr_inflight(c, bbr->bw, bbr_gains[bbr->phase].window) + bbr_extra_acked(c);
    uint64_t cap = bbr_cap(c);

    if (bbr->is_full_bw_reached) {
        c->window = c->window + sample->acked < most ? c->window + sample->acked : most;
    } else if (c->window < most || c->delivered < 10ull * c->datagram) {
        c->window += sample->acked;
    }
    c->window = c->window > bbr_least(c) ? c->window : bbr_least(c);
    c->window = c->window < cap ? c->window : cap;
}

static void bbr_sample(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_bbr_state *bbr = c->bbr;

    bbr_model_take(c, sample);
    if (bbr->phase == QUIC_BBR_STARTUP) {
        bbr_startup(c, sample);
    }
    if (bbr->is_loss_round_start) {
        bbr->losses_in_round = 0;
        bbr->lost_in_round = 0;
    }
    if (bbr->phase == QUIC_BBR_DRAIN && c->in_flight <= bbr_inflight(c, bbr_max_bw(c), 1.0)) {
        bbr_start_down(c, sample->now_us);
    }
    if (bbr->is_full_bw_reached && sample->newest_acked_us != 0) {
        bbr_upper_bounds(c, sample);
        bbr_cycle(c, sample);
    }
    bbr_probe_rtt(c, sample);
    bbr->is_idle_restart = bbr->is_idle_restart && sample->delivered == 0;
    bbr_model_advance(c, sample);
    bbr_set_pace(c, bbr_gains[bbr->phase].pacing);
    bbr_set_window(c, sample);
}

static void bbr_sent(struct quic_congestion *c, const struct quic_sent *sent, uint64_t now_us)
{
    struct quic_bbr_state *bbr = c->bbr;

    if (c->in_flight != 0 || c->app_limited_until == 0) {
        return;
    }
    bbr->is_idle_restart = true; /* after a pause */
    bbr->extra_start_us = now_us;
    bbr->extra_delivered = 0;
    if (bbr_is_in_probe_bw(c)) {
        bbr_set_pace(c, 1.0);
    } else if (bbr->phase == QUIC_BBR_PROBE_RTT && bbr->probe_rtt_done_us != 0 &&
               now_us > bbr->probe_rtt_done_us) {
        bbr_exit_probe_rtt(c, now_us);
    }
}

static void bbr_persistent(struct quic_congestion *c, uint64_t now_us)
{
    c->window = bbr_least(c);
}

const struct quic_congestion_control quic_bbr = {
    .name = "bbr",
    .init = bbr_init,
    .sent = bbr_sent,
    .lost = bbr_lost,
    .sample = bbr_sample,
    .persistent = bbr_persistent,
    .spurious = bbr_spurious,
};
