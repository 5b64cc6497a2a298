/* CUBIC (RFC 9438) with the slow start of HyStart++ (RFC 9406). */
#include <math.h>

#include "net/quic/congestion.h"
#include "net/quic/recovery.h"

#define CUBIC_C 0.4    /* RFC 9438, 4.1: datagrams a second, cubed */
#define CUBIC_BETA 0.7 /* 4.6 */
#define CUBIC_ALPHA (3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA))

/* RFC 9406, 4.3. */
#define HYSTART_MIN_US 4000u
#define HYSTART_MAX_US 16000u
#define HYSTART_DIVISOR 8u
#define HYSTART_SAMPLES 8u
#define CSS_GROWTH_DIVISOR 4u
#define CSS_ROUNDS 5u

static void cubic_init(struct quic_congestion *c, uint64_t now_us)
{
    c->cubic.round_min_us = c->cubic.last_min_us = UINT64_MAX;
}

/* ---- less ---- */

static void cubic_reduce(struct quic_congestion *c, uint64_t now_us)
{
    struct quic_cubic_state *cubic = &c->cubic;
    double window = (double) c->window;

    cubic->prior_window = c->window;
    cubic->prior_threshold = c->threshold;
    cubic->prior_window_max = cubic->window_max;
    cubic->window_max =
        window < cubic->window_max ? window * (1.0 + CUBIC_BETA) / 2 : window; /* 4.7 */
    c->window = (uint64_t) (window * CUBIC_BETA);
    if (c->window < quic_congestion_least(c)) {
        c->window = quic_congestion_least(c);
    }
    c->threshold = c->window;
    c->is_slow_start = false;
    c->reductions++;
    cubic->recovery_us = now_us;
    cubic->epoch_us = 0;
    cubic->growth = 0;
}

static void cubic_lost(struct quic_congestion *c, const struct quic_sent *sent, uint64_t now_us)
{
    if (sent->time_us > c->cubic.recovery_us && !c->cubic.is_new_episode) {
        c->cubic.is_new_episode = true;
        c->cubic.episode_lost = 0;
    }
    c->cubic.episode_lost++;
}

/* The last reduction is undone when all that was lost for it has arrived (RFC 9438, 4.9). */
static void cubic_spurious(struct quic_congestion *c, const struct quic_sent *sent, uint64_t now_us)
{
    struct quic_cubic_state *cubic = &c->cubic;

    if (cubic->episode_lost == 0 || sent->time_us > cubic->recovery_us ||
        --cubic->episode_lost != 0) {
        return;
    }
    if (c->window < cubic->prior_window) {
        c->window = cubic->prior_window;
        c->threshold = cubic->prior_threshold;
        c->is_slow_start = c->window < c->threshold;
        cubic->window_max = cubic->prior_window_max;
        cubic->recovery_us = 0;
        cubic->epoch_us = 0;
    }
}

static void cubic_persistent(struct quic_congestion *c, uint64_t now_us)
{
    c->window = quic_congestion_least(c);
    c->is_slow_start = c->window < c->threshold;
    c->cubic.recovery_us = 0;
    c->cubic.epoch_us = 0;
    c->cubic.episode_lost = 0;
}

/* ---- slow start ---- */

/* Whether the RTT of this round says that a queue builds up: conservative slow start begins; or
 * that it does not. */
static void hystart_judge(struct quic_cubic_state *cubic)
{
    if (cubic->round_samples < HYSTART_SAMPLES || cubic->last_min_us == UINT64_MAX) {
        return;
    }
    if (cubic->is_css) {
        cubic->is_css = cubic->round_min_us >= cubic->css_base_us;
        return;
    }
    uint64_t more = cubic->last_min_us / HYSTART_DIVISOR;
    more = more < HYSTART_MIN_US ? HYSTART_MIN_US : more > HYSTART_MAX_US ? HYSTART_MAX_US : more;
    if (cubic->round_min_us >= cubic->last_min_us + more) {
        cubic->is_css = true;
        cubic->css_rounds = 0;
        cubic->css_base_us = cubic->round_min_us;
    }
}

static void cubic_slow_start(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_cubic_state *cubic = &c->cubic;

    if (sample->is_round_start) {
        cubic->last_min_us = cubic->round_min_us;
        cubic->round_min_us = UINT64_MAX;
        cubic->round_samples = 0;
        if (cubic->is_css && ++cubic->css_rounds >= CSS_ROUNDS) {
            c->threshold = c->window;
            c->is_slow_start = cubic->is_css = false;
            return;
        }
    }
    c->window += cubic->is_css ? sample->acked / CSS_GROWTH_DIVISOR : sample->acked;
    if (sample->rtt_us != 0) {
        cubic->round_samples++;
        if (sample->rtt_us < cubic->round_min_us) {
            cubic->round_min_us = sample->rtt_us;
        }
        hystart_judge(cubic);
    }
}

/* ---- congestion avoidance ---- */

static void cubic_begin_epoch(struct quic_congestion *c, uint64_t now_us)
{
    struct quic_cubic_state *cubic = &c->cubic;
    double window = (double) c->window;

    cubic->epoch_us = now_us;
    cubic->window_est = window;
    if (window < cubic->window_max) {
        cubic->k = cbrt((cubic->window_max - window) / (CUBIC_C * c->datagram));
    } else {
        cubic->k = 0;
        cubic->window_max = window;
    }
}

static void cubic_avoid(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_cubic_state *cubic = &c->cubic;
    double window = (double) c->window, acked = (double) sample->acked;

    if (cubic->epoch_us == 0) {
        cubic_begin_epoch(c, sample->now_us);
    }
    double t = (double) (sample->now_us - cubic->epoch_us) / 1e6;
    double late = t + (double) sample->smoothed_rtt_us / 1e6 - cubic->k;
    double target = cubic->window_max + CUBIC_C * c->datagram * late * late * late;
    target = target < window ? window : target > 1.5 * window ? 1.5 * window : target;

    double alpha = cubic->window_est < (double) cubic->prior_window ? CUBIC_ALPHA : 1.0; /* 4.3 */
    cubic->window_est += alpha * acked * c->datagram / window;
    double more = (target - window) * acked / window;
    if (cubic->window_est > window + more) {
        more = cubic->window_est - window;
    }
    more += cubic->growth;
    c->window += (uint64_t) more;
    cubic->growth = more - floor(more);
}

/* ---- the samples ---- */

/* The application, and not the window, limited what was in flight (RFC 9002, 7.8; RFC 9438, 5.8).
 */
static bool cubic_is_underused(const struct quic_congestion *c, const struct quic_sample *sample)
{
    return c->is_app_limited && sample->in_flight < c->window / 4 * 3;
}

static void cubic_sample(struct quic_congestion *c, const struct quic_sample *sample)
{
    struct quic_cubic_state *cubic = &c->cubic;
    uint64_t since_us = cubic->counted_us == 0 ? 0 : sample->now_us - cubic->counted_us;

    cubic->counted_us = sample->now_us;
    if (sample->newest_lost_us > cubic->recovery_us) {
        cubic_reduce(c, sample->now_us);
    } else if (sample->ce_sent_us > cubic->recovery_us) {
        cubic_reduce(c, sample->now_us);
        cubic->episode_lost = 0; /* no undoing */
    } else if (cubic_is_underused(c, sample)) {
        cubic->epoch_us += cubic->epoch_us == 0 ? 0 : since_us;
    } else if (sample->acked != 0 && sample->newest_acked_us > cubic->recovery_us) {
        if (c->window < c->threshold) {
            cubic_slow_start(c, sample);
        } else {
            cubic_avoid(c, sample);
        }
    }
    cubic->is_new_episode = false;
    uint64_t paced = c->window < c->threshold ? 2 * c->window : c->window + c->window / 4;
    uint64_t rtt_us = sample->smoothed_rtt_us == 0 ? 1 : sample->smoothed_rtt_us;
    c->pacing_rate = paced * 1000000u / rtt_us;
}

const struct quic_congestion_control quic_cubic = {
    .name = "cubic",
    .init = cubic_init,
    .lost = cubic_lost,
    .sample = cubic_sample,
    .persistent = cubic_persistent,
    .spurious = cubic_spurious,
};
