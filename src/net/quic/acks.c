/* Acknowledgements, RTT, losses, ECN (RFC 9002, 5, 6.1, 7; RFC 9000, 13.4.2). */
#include "net/quic/recovery_private.h"

#define LOST_KEPT 512u /* lost packets of a space that may still be acknowledged */
#define LOST_KEPT_IDLE                                                                             \
    8u /* lost packets that are remembered when nothing is outstanding: the connection may be idle \
          from now on */
#define REORDERING_MOST 1024u  /* packets */
#define REORDER_SHIFT_LEAST 0u /* a packet is lost after two round trips, at the most */
#define LOSSES_TO_HURRY 64u    /* packets */
#define PERSISTENT_PTOS 3u

/* One ACK frame while it is worked on. */
struct ack_work {
    struct quic_recovery *r;
    enum quic_space space;
    const struct quic_ack *ack;
    struct quic_sample sample;
    uint64_t newest; /* number of the newest packet that it newly acknowledged; QUIC_NEVER: none */
    uint64_t newest_us;   /* when that was sent */
    bool is_late;         /* it acknowledged packets that were taken for lost */
    bool is_newest_here;  /* the newest acknowledged packet was sent on the current path */
    uint32_t ect_acked;   /* newly acknowledged packets that were marked */
    uint64_t send_us;     /* of the packet by which the rate is measured: time between sendings */
    uint64_t arrive_us;   /* time between acknowledgements */
    uint64_t measured_us; /* when it was sent; 0: none */
};

/* ---- what was acknowledged ---- */

/* Whether the frame names a number that was never sent. */
static bool ack_is_forged(const struct quic_recovery *r, enum quic_space number_space,
                          const struct quic_ack *ack)
{
    const struct quic_skips *skips = &r->skips;
    uint32_t kept = skips->count < QUIC_SKIPPED_KEPT ? skips->count : QUIC_SKIPPED_KEPT;

    if (ack->ranges[0].end > r->spaces[number_space].next_number) {
        return true;
    }
    for (uint32_t i = 0; number_space == QUIC_SPACE_APPLICATION && i < kept; i++) {
        for (uint32_t j = 0; j < ack->count && ack->ranges[j].end > skips->kept[i]; j++) {
            if (ack->ranges[j].start <= skips->kept[i]) {
                return true;
            }
        }
    }
    return false;
}

/* The delivery rate is measured by the packet that was sent last (draft-ietf-ccwg-bbr, 4.1.2.3). */
static void ack_measure(struct ack_work *work, const struct quic_sent *sent)
{
    struct quic_congestion *c = &work->r->congestion;

    c->delivered += sent->size;
    c->delivered_us = work->sample.now_us;
    if (work->measured_us == 0 || sent->delivered > work->sample.prior_delivered ||
        (sent->delivered == work->sample.prior_delivered && sent->time_us >= work->measured_us)) {
        work->measured_us = sent->time_us;
        work->sample.prior_delivered = sent->delivered;
        work->sample.is_app_limited = sent->is_app_limited;
        work->sample.tx_in_flight = sent->in_flight;
        work->sample.lost_since = c->lost - sent->lost;
        work->send_us = sent->time_us - sent->first_sent_us;
        work->arrive_us = c->delivered_us - sent->delivered_us;
        c->first_sent_us = sent->time_us;
    }
}

/* A packet that was outstanding; it is out of its list. */
static void ack_packet(struct ack_work *work, struct quic_sent *sent)
{
    struct quic_recovery *r = work->r;

    work->newest = sent->number;
    work->newest_us = sent->time_us;
    work->is_newest_here = sent->path == r->path;
    work->ect_acked += sent->is_ect;
    r->outstanding--;
    recovery_leave_flight(r, sent);
    if (sent->path == r->path) {
        work->sample.acked += sent->size;
        ack_measure(work, sent);
    }
    recovery_report(r, work->space, sent, r->events->acked);
    quic_sent_drop(r, sent);
}

/* A packet that was declared lost has arrived: the path reorders more than was thought (RFC
 * 9002, 6.1). */
static void ack_lost_packet(struct ack_work *work, struct quic_sent *sent)
{
    struct quic_recovery *r = work->r;
    struct quic_sent_space *space = &r->spaces[work->space];
    uint64_t distance =
        space->largest_acked > sent->number ? space->largest_acked - sent->number : 0;

    work->is_late = true;
    r->true_losses = 0;
    r->packets_spurious++;
    space->lost_count--;
    if (sent->path == r->path) {
        if (distance >= r->reordering) {
            r->reordering = distance < REORDERING_MOST ? (uint32_t) distance + 1 : REORDERING_MOST;
        }
        if (r->reorder_shift > REORDER_SHIFT_LEAST &&
            work->sample.now_us - sent->time_us >
                r->rtt.smoothed_us + (r->rtt.smoothed_us >> r->reorder_shift)) {
            r->reorder_shift--;
        }
        if (r->congestion.control->spurious != NULL) {
            r->congestion.control->spurious(&r->congestion, sent, work->sample.now_us);
        }
    }
    recovery_report(r, work->space, sent, r->events->acked);
    quic_sent_drop(r, sent);
}

/*
 * Calls `found` for the packets of a list that the frame names. List and ranges are walked once,
 * from the lowest number: what was acknowledged before is in no list, so the way is as long as what
 * is new and what is missing.
 */
static void ack_walk(struct ack_work *work, struct list *list,
                     void (*found)(struct ack_work *, struct quic_sent *))
{
    uint32_t left = work->ack->count;

    list_each(link, list) {
        struct quic_sent *sent = container_of(link, struct quic_sent, link);
        while (left != 0 && work->ack->ranges[left - 1].end <= sent->number) {
            left--;
        }
        if (left == 0) {
            break;
        }
        if (work->ack->ranges[left - 1].start <= sent->number) {
            list_remove(&sent->link);
            found(work, sent);
        }
    }
}

/* ---- RTT ---- */

/* RFC 9002, 5.3. */
static void rtt_take(struct quic_recovery *r, uint64_t latest_us, uint64_t delay_us,
                     uint64_t now_us)
{
    struct quic_rtt *rtt = &r->rtt;

    rtt->latest_us = latest_us == 0 ? 1 : latest_us;
    if (rtt->first_sample_us == 0) {
        rtt->first_sample_us = now_us;
        rtt->min_us = rtt->smoothed_us = rtt->latest_us;
        rtt->variance_us = rtt->latest_us / 2;
        return;
    }
    if (rtt->latest_us < rtt->min_us) {
        rtt->min_us = rtt->latest_us;
    }
    if (r->is_handshake_confirmed && delay_us > r->max_ack_delay_us) {
        delay_us = r->max_ack_delay_us;
    }
    uint64_t adjusted =
        rtt->latest_us >= rtt->min_us + delay_us ? rtt->latest_us - delay_us : rtt->latest_us;
    uint64_t off =
        rtt->smoothed_us > adjusted ? rtt->smoothed_us - adjusted : adjusted - rtt->smoothed_us;
    rtt->variance_us = (3 * rtt->variance_us + off) / 4;
    rtt->smoothed_us = (7 * rtt->smoothed_us + adjusted) / 8;
}

static void ack_sample_rtt(struct ack_work *work)
{
    const struct quic_ack *ack = work->ack;
    uint64_t now_us = work->sample.now_us;

    if (work->newest == ack->ranges[0].end - 1 && work->is_newest_here) {
        uint64_t delay_us = work->space == QUIC_SPACE_INITIAL ? 0 : ack->delay_us;
        rtt_take(work->r, now_us - work->newest_us, delay_us, now_us);
        work->sample.rtt_us = work->r->rtt.latest_us;
    }
}

/* ---- ECN ---- */

/* Compares the counts of the peer with what was marked (RFC 9000, 13.4.2.1). */
static void ack_check_ecn(struct ack_work *work)
{
    struct quic_recovery *r = work->r;
    struct quic_sent_space *space = &r->spaces[work->space];
    const struct quic_ack *ack = work->ack;

    if (r->ecn == QUIC_ECN_OFF || r->ecn == QUIC_ECN_FAILED) {
        return;
    }
    if (!ack->has_ecn) {
        r->ecn = work->ect_acked != 0 ? QUIC_ECN_FAILED : r->ecn;
        return;
    }
    if (ack->ect1 != 0 || ack->ect0 < space->ect0 || ack->ce < space->ce ||
        ack->ect0 - space->ect0 + (ack->ce - space->ce) < work->ect_acked) {
        r->ecn = QUIC_ECN_FAILED;
        return;
    }
    if (work->ect_acked != 0) {
        r->ecn = QUIC_ECN_CAPABLE;
    }
    if (ack->ce > space->ce && work->newest != QUIC_NEVER) {
        work->sample.ce_sent_us = work->newest_us;
    }
    space->ect0 = ack->ect0;
    space->ce = ack->ce;
}

/* ---- losses ---- */

/* Whether packets that were lost one after the other cover three PTO (RFC 9002, 7.6). */
static bool lost_is_persistent(struct quic_recovery *r, struct quic_sent_space *space,
                               const struct quic_sent *sent)
{
    uint64_t duration =
        PERSISTENT_PTOS * (recovery_pto_us(r, QUIC_SPACE_INITIAL) + r->max_ack_delay_us);

    bool is_next = space->run_last != QUIC_NEVER && space->run_last == sent->previous;

    if (sent->is_mtu_probe) { /* it says nothing, neither way */
        space->run_last = is_next ? sent->number : space->run_last;
        return false;
    }
    if (r->rtt.first_sample_us == 0 || sent->time_us <= r->rtt.first_sample_us) {
        return false;
    }
    if (!is_next) {
        space->run_start_us = sent->time_us;
    }
    space->run_last = sent->number;
    return sent->time_us - space->run_start_us > duration;
}

/* Forgets lost packets that are too many, or too old for a late acknowledgement. */
static void lost_forget(struct quic_recovery *r, struct quic_sent_space *space, uint64_t now_us)
{
    uint64_t age_us = PERSISTENT_PTOS * quic_recovery_pto_us(r);
    uint32_t most = r->outstanding == 0 ? LOST_KEPT_IDLE : LOST_KEPT;

    while (space->lost_count != 0) {
        struct quic_sent *oldest = container_of(space->lost.next, struct quic_sent, link);
        if (space->lost_count <= most && now_us - oldest->time_us < age_us) {
            break;
        }
        quic_sent_drop(r, oldest);
        space->lost_count--;
    }
}

/* Where nothing is lost in vain for long, losses are found sooner again. */
static void lost_count(struct quic_recovery *r)
{
    if (++r->true_losses < LOSSES_TO_HURRY) {
        return;
    }
    r->true_losses = 0;
    r->reorder_shift += r->reorder_shift < QUIC_REORDER_SHIFT;
    r->reordering = r->reordering / 2 > QUIC_REORDERING ? r->reordering / 2 : QUIC_REORDERING;
}

static void lost_packet(struct quic_recovery *r, enum quic_space space, struct quic_sent *sent,
                        struct quic_sample *sample)
{
    struct quic_congestion *c = &r->congestion;

    list_remove(&sent->link);
    r->outstanding--;
    r->packets_lost++;
    lost_count(r);
    recovery_leave_flight(r, sent);
    if (sent->is_ect && r->ecn == QUIC_ECN_TESTING && ++r->ecn_lost >= 10) {
        r->ecn = QUIC_ECN_FAILED;
    }
    if (sent->path == r->path && !sent->is_mtu_probe) {
        c->lost += sent->size;
        sample->lost += sent->size;
        sample->newest_lost_us = sent->time_us;
        if (c->control->lost != NULL) {
            c->control->lost(c, sent, sample->now_us);
        }
    }
    recovery_report(r, space, sent, r->events->lost);
    list_push_back(&r->spaces[space].lost, &sent->link);
    r->spaces[space].lost_count++;
}

void recovery_find_lost(struct quic_recovery *r, enum quic_space number_space,
                        struct quic_sample *sample)
{
    struct quic_sent_space *space = &r->spaces[number_space];
    uint64_t rtt = r->rtt.latest_us > r->rtt.smoothed_us ? r->rtt.latest_us : r->rtt.smoothed_us;
    uint64_t delay = rtt + (rtt >> r->reorder_shift);
    bool is_persistent = false;

    delay = delay > QUIC_GRANULARITY_US ? delay : QUIC_GRANULARITY_US;
    space->loss_us = QUIC_NEVER;
    list_each(link, &space->sent) {
        struct quic_sent *sent = container_of(link, struct quic_sent, link);
        if (space->largest_acked == QUIC_NEVER || sent->number > space->largest_acked) {
            break;
        }
        if (sent->time_us + delay > sample->now_us &&
            space->largest_acked - sent->number < r->reordering) {
            space->loss_us = sent->time_us + delay;
            break;
        }
        is_persistent =
            (sent->path == r->path && lost_is_persistent(r, space, sent)) || is_persistent;
        lost_packet(r, number_space, sent, sample);
    }
    lost_forget(r, space, sample->now_us);
    if (is_persistent) {
        space->run_last = QUIC_NEVER;
        r->rtt.min_us = r->rtt.latest_us;
        r->congestion.reductions++;
        r->congestion.control->persistent(&r->congestion, sample->now_us);
    }
}

void recovery_give_sample(struct quic_recovery *r, struct quic_sample *sample)
{
    struct quic_congestion *c = &r->congestion;

    sample->min_rtt_us = r->rtt.min_us;
    sample->smoothed_rtt_us = r->rtt.smoothed_us;
    if (sample->acked != 0 || sample->lost != 0 || sample->ce_sent_us != 0) {
        c->control->sample(c, sample);
        c->window = c->window < QUIC_WINDOW_MOST ? c->window : QUIC_WINDOW_MOST;
    }
}

/* Completes the measurement of the delivery rate. */
static void ack_finish_rate(struct ack_work *work)
{
    struct quic_congestion *c = &work->r->congestion;
    struct quic_sample *sample = &work->sample;

    if (c->app_limited_until != 0 && c->delivered > c->app_limited_until) {
        c->app_limited_until = 0;
    }
    if (work->measured_us == 0) {
        return;
    }
    if (sample->prior_delivered >= c->next_round) {
        c->next_round = c->delivered;
        c->rounds++;
        sample->is_round_start = true;
    }
    sample->newest_acked_us = work->measured_us;
    sample->delivered = c->delivered - sample->prior_delivered;
    sample->interval_us = work->send_us > work->arrive_us ? work->send_us : work->arrive_us;
    if (sample->interval_us < work->r->rtt.min_us) {
        sample->interval_us = 0;
    }
}

enum quic_ack_result quic_recovery_ack(struct quic_recovery *r, enum quic_space number_space,
                                       const struct quic_ack *ack, uint64_t now_us)
{
    struct quic_sent_space *space = &r->spaces[number_space];
    struct ack_work work = {.r = r, .space = number_space, .ack = ack, .newest = QUIC_NEVER};

    if (ack_is_forged(r, number_space, ack)) {
        return QUIC_ACK_FORGED;
    }
    uint64_t largest = ack->ranges[0].end - 1;
    bool is_higher = space->largest_acked == QUIC_NEVER || largest > space->largest_acked;
    space->largest_acked = is_higher ? largest : space->largest_acked;
    work.sample.now_us = now_us;
    work.sample.in_flight = r->congestion.in_flight;
    ack_walk(&work, &space->lost, ack_lost_packet);
    ack_walk(&work, &space->sent, ack_packet);
    if (is_higher) {
        ack_check_ecn(&work);
    }
    if (work.newest == QUIC_NEVER && !work.is_late && !is_higher) {
        return QUIC_ACK_OLD;
    }
    ack_sample_rtt(&work);
    ack_finish_rate(&work);
    recovery_find_lost(r, number_space, &work.sample);
    recovery_give_sample(r, &work.sample);
    if (r->is_server || r->is_peer_validated) {
        r->pto_count = 0;
    }
    space->probes = 0;
    r->last_event_us = now_us;
    return QUIC_ACK_NEW;
}
