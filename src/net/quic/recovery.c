/* What is sent, timers and probes (RFC 9002, 6.2); acknowledgements and losses are in acks.c. */
#include "net/quic/recovery.h"

#include <string.h>

#include "net/quic/recovery_private.h"

#define PTO_MOST_US 60000000u /* with back-off */
#define SKIP_LEAST 64u        /* packet numbers between two that are left out */
#define ECN_TEST_PACKETS 10u
#define PTOS_TO_REPEAT_ALL 3u
#define PROBES 2u /* packets of a probe (RFC 9002, 6.2.4) */

/* xorshift64*. */
static uint64_t recovery_random(struct quic_recovery *r)
{
    r->random ^= r->random >> 12;
    r->random ^= r->random << 25;
    r->random ^= r->random >> 27;
    return r->random * 0x2545f4914f6cdd1dull >> 32;
}

/* The gaps become wider, up to 16,384 numbers. */
static void plan_skip(struct quic_recovery *r)
{
    uint32_t wider = r->skips.count < 8 ? r->skips.count : 8;

    r->skips.next = r->spaces[QUIC_SPACE_APPLICATION].next_number + SKIP_LEAST +
                    recovery_random(r) % (SKIP_LEAST << wider);
}

static void rtt_init(struct quic_rtt *rtt)
{
    *rtt = (struct quic_rtt){
        .smoothed_us = QUIC_INITIAL_RTT_US,
        .variance_us = QUIC_INITIAL_RTT_US / 2,
    };
}

void quic_recovery_init(struct quic_recovery *r, const struct quic_recovery_setup *setup,
                        uint64_t now_us)
{
    memset(r, 0, sizeof(*r));
    r->is_server = setup->is_server;
    r->max_ack_delay_us = 25000;
    r->pool = setup->pool;
    r->events = setup->events;
    r->owner = setup->owner;
    r->random = setup->random == 0 ? 1 : setup->random;
    r->reordering = QUIC_REORDERING;
    r->reorder_shift = QUIC_REORDER_SHIFT;
    r->ecn = setup->has_ecn ? QUIC_ECN_TESTING : QUIC_ECN_OFF;
    r->last_event_us = now_us;
    rtt_init(&r->rtt);
    r->congestion.control = setup->control;
    r->congestion.datagram = setup->datagram_size;
    quic_congestion_init(&r->congestion, now_us);
    for (int i = 0; i < QUIC_SPACES; i++) {
        struct quic_sent_space *space = &r->spaces[i];
        list_init(&space->sent);
        list_init(&space->lost);
        space->largest_acked = space->last_eliciting = space->run_last = QUIC_NEVER;
        space->loss_us = QUIC_NEVER;
    }
    plan_skip(r);
}

/* Forgets all packets of a list. */
static void recovery_empty(struct quic_recovery *r, struct list *list)
{
    while (!list_is_empty(list)) {
        quic_sent_drop(r, container_of(list->next, struct quic_sent, link));
    }
}

void quic_recovery_free(struct quic_recovery *r)
{
    for (int i = 0; i < QUIC_SPACES; i++) {
        recovery_empty(r, &r->spaces[i].sent);
        recovery_empty(r, &r->spaces[i].lost);
    }
    r->outstanding = 0;
    quic_congestion_free(&r->congestion);
}

uint64_t quic_recovery_number(struct quic_recovery *r, enum quic_space number_space)
{
    struct quic_sent_space *space = &r->spaces[number_space];

    if (number_space == QUIC_SPACE_APPLICATION && space->next_number == r->skips.next) {
        r->skips.kept[r->skips.count++ % QUIC_SKIPPED_KEPT] = space->next_number++;
        plan_skip(r);
    }
    return space->next_number++;
}

/* ---- sending ---- */

/* The state of the delivery rate that the packet takes along (draft-ietf-ccwg-bbr, 4.1.2.2). */
static void sent_stamp(struct quic_congestion *c, struct quic_sent *sent, uint64_t now_us)
{
    if (c->in_flight == 0) {
        c->first_sent_us = c->delivered_us = now_us;
    }
    c->in_flight += sent->size;
    sent->delivered = c->delivered;
    sent->delivered_us = c->delivered_us;
    sent->first_sent_us = c->first_sent_us;
    sent->lost = c->lost;
    sent->in_flight = (uint32_t) c->in_flight;
    sent->is_app_limited = c->app_limited_until != 0;
    if (c->in_flight + c->datagram > c->window) {
        c->is_app_limited = false;
    }
}

void quic_recovery_sent(struct quic_recovery *r, enum quic_space number_space,
                        struct quic_sent *sent, uint64_t now_us)
{
    struct quic_sent_space *space = &r->spaces[number_space];
    struct quic_congestion *c = &r->congestion;

    sent->time_us = now_us;
    sent->path = r->path;
    sent->previous = space->last_eliciting;
    space->last_eliciting = sent->number;
    space->last_eliciting_us = r->last_event_us = now_us;
    if (space->probes != 0) {
        space->probes--;
    }
    list_push_back(&space->sent, &sent->link);
    r->outstanding++;
    r->bytes_sent += sent->size;
    r->ecn_sent += sent->is_ect;
    quic_pacer_spend(c, sent->size, now_us);
    if (c->control->sent != NULL) {
        c->control->sent(c, sent, now_us);
    }
    sent_stamp(c, sent, now_us);
}

bool quic_recovery_marks(const struct quic_recovery *r)
{
    return r->ecn == QUIC_ECN_CAPABLE ||
           (r->ecn == QUIC_ECN_TESTING && r->ecn_sent < ECN_TEST_PACKETS);
}

/* Bytes that the window leaves; 0 when that is less than a datagram. */
static uint64_t recovery_room(const struct quic_recovery *r)
{
    const struct quic_congestion *c = &r->congestion;

    if (c->in_flight + c->datagram > c->window || r->outstanding >= QUIC_SENT_MOST) {
        return 0;
    }
    return c->window - c->in_flight;
}

size_t quic_recovery_allowance(struct quic_recovery *r, uint64_t now_us)
{
    uint64_t room = recovery_room(r);

    if (room == 0) {
        return 0;
    }
    uint64_t tokens = quic_pacer_tokens(&r->congestion, now_us);
    if (tokens < r->congestion.datagram) {
        return 0;
    }
    return (size_t) (tokens < room ? tokens : room);
}

uint64_t quic_recovery_paced_until(struct quic_recovery *r, uint64_t now_us)
{
    return recovery_room(r) == 0 ? QUIC_NEVER : quic_pacer_ready_us(&r->congestion, now_us);
}

void quic_recovery_app_limited(struct quic_recovery *r)
{
    struct quic_congestion *c = &r->congestion;

    if (c->in_flight + c->datagram <= c->window) {
        c->is_app_limited = true;
        c->app_limited_until = c->delivered + c->in_flight;
        if (c->app_limited_until == 0) {
            c->app_limited_until = 1;
        }
    }
}

/* ---- timers ---- */

uint64_t recovery_pto_us(const struct quic_recovery *r, enum quic_space space)
{
    uint64_t variance = 4 * r->rtt.variance_us;
    uint64_t pto =
        r->rtt.smoothed_us + (variance > QUIC_GRANULARITY_US ? variance : QUIC_GRANULARITY_US);

    return space == QUIC_SPACE_APPLICATION && r->is_handshake_confirmed ? pto + r->max_ack_delay_us
                                                                        : pto;
}

uint64_t quic_recovery_pto_us(const struct quic_recovery *r)
{
    return recovery_pto_us(r, QUIC_SPACE_APPLICATION);
}

/* With back-off. */
static uint64_t recovery_backed_off_us(const struct quic_recovery *r, enum quic_space space)
{
    uint64_t pto = recovery_pto_us(r, space) << (r->pto_count < 16 ? r->pto_count : 16);

    return pto < PTO_MOST_US ? pto : PTO_MOST_US;
}

/* When the first packet is lost by time, and of which space. */
static uint64_t recovery_loss_us(const struct quic_recovery *r, enum quic_space *space)
{
    uint64_t earliest = QUIC_NEVER;

    for (int i = 0; i < QUIC_SPACES; i++) {
        if (r->spaces[i].loss_us < earliest) {
            earliest = r->spaces[i].loss_us;
            *space = (enum quic_space) i;
        }
    }
    return earliest;
}

/* When to probe, and in which space. */
static uint64_t recovery_probe_us(const struct quic_recovery *r, enum quic_space *space)
{
    uint64_t earliest = QUIC_NEVER;

    if (r->is_server && r->is_amplification_limited) {
        return QUIC_NEVER;
    }
    for (int i = 0; i < QUIC_SPACES; i++) {
        if (list_is_empty(&r->spaces[i].sent) ||
            (i == QUIC_SPACE_APPLICATION && !r->is_handshake_confirmed)) {
            continue;
        }
        uint64_t at =
            r->spaces[i].last_eliciting_us + recovery_backed_off_us(r, (enum quic_space) i);
        if (at < earliest) {
            earliest = at;
            *space = (enum quic_space) i;
        }
    }
    /* RFC 9002, 6.2.2.1: the server may have to wait for bytes of its client. */
    if (earliest == QUIC_NEVER && !r->is_server && !r->is_peer_validated) {
        *space = r->has_handshake_keys ? QUIC_SPACE_HANDSHAKE : QUIC_SPACE_INITIAL;
        return r->last_event_us + recovery_backed_off_us(r, *space);
    }
    return earliest;
}

uint64_t quic_recovery_deadline(const struct quic_recovery *r)
{
    enum quic_space space;
    uint64_t loss = recovery_loss_us(r, &space);

    return loss != QUIC_NEVER ? loss : recovery_probe_us(r, &space);
}

/*
 * The oldest packets of a space are to be repeated, though they may have arrived. After some probes
 * without an answer all are: what is sent first is then what the peer misses first, and not what
 * was sent first.
 */
static void recovery_probe(struct quic_recovery *r, enum quic_space space, uint32_t probes)
{
    uint32_t repeated = r->pto_count >= PTOS_TO_REPEAT_ALL ? QUIC_SENT_MOST : probes;

    list_each(link, &r->spaces[space].sent) {
        if (repeated-- == 0) {
            break;
        }
        recovery_report(r, space, container_of(link, struct quic_sent, link), r->events->lost);
    }
    r->spaces[space].probes = probes;
}

void quic_recovery_expired(struct quic_recovery *r, uint64_t now_us)
{
    enum quic_space space = QUIC_SPACE_INITIAL;
    uint64_t loss_us = recovery_loss_us(r, &space);

    if (loss_us != QUIC_NEVER) {
        if (now_us >= loss_us) {
            struct quic_sample sample = {.now_us = now_us, .in_flight = r->congestion.in_flight};
            recovery_find_lost(r, space, &sample);
            recovery_give_sample(r, &sample);
        }
        return;
    }
    if (now_us < recovery_probe_us(r, &space)) {
        return;
    }
    r->pto_count++;
    r->last_event_us = now_us;
    for (int i = 0; i < QUIC_SPACES; i++) {
        bool is_probed = !list_is_empty(&r->spaces[i].sent) &&
                         (i != QUIC_SPACE_APPLICATION || r->is_handshake_confirmed);
        if (i == (int) space || is_probed) { /* they can share a datagram */
            recovery_probe(r, (enum quic_space) i, i == (int) space ? PROBES : 1);
        }
    }
}

uint32_t quic_recovery_probes(const struct quic_recovery *r, enum quic_space space)
{
    return r->spaces[space].probes;
}

/* ---- changes of the connection ---- */

void recovery_leave_flight(struct quic_recovery *r, const struct quic_sent *sent)
{
    if (sent->path == r->path) {
        r->congestion.in_flight -= sent->size;
    }
}

void recovery_report(struct quic_recovery *r, enum quic_space space, const struct quic_sent *sent,
                     void (*report)(void *, enum quic_space, const struct quic_carried *))
{
    uint32_t few = sent->count < QUIC_CARRIED_FEW ? sent->count : QUIC_CARRIED_FEW;
    uint32_t last = (sent->count - 1u) % QUIC_CARRIED_FEW + 1; /* in the newest of the others */

    for (uint32_t i = 0; i < few; i++) {
        if (sent->frames[i].kind != QUIC_CARRIED_PING) {
            report(r->owner, space, &sent->frames[i]);
        }
    }
    for (const struct quic_carried_more *more = sent->more; more != NULL; more = more->next) {
        for (uint32_t i = 0; i < last; i++) {
            if (more->frames[i].kind != QUIC_CARRIED_PING) {
                report(r->owner, space, &more->frames[i]);
            }
        }
        last = QUIC_CARRIED_FEW;
    }
}

/* Takes all packets of a space out of flight; reports them, or not. */
static void recovery_clear(struct quic_recovery *r, enum quic_space number_space, bool is_reported)
{
    struct quic_sent_space *space = &r->spaces[number_space];

    while (!list_is_empty(&space->sent)) {
        struct quic_sent *sent = container_of(space->sent.next, struct quic_sent, link);
        list_remove(&sent->link);
        r->outstanding--;
        recovery_leave_flight(r, sent);
        if (is_reported) {
            recovery_report(r, number_space, sent, r->events->lost);
        }
        quic_sent_drop(r, sent);
    }
    recovery_empty(r, &space->lost);
    space->lost_count = 0;
    space->loss_us = QUIC_NEVER;
    space->probes = 0;
    r->pto_count = 0;
}

void quic_recovery_discard(struct quic_recovery *r, enum quic_space space)
{
    recovery_clear(r, space, false);
    r->spaces[space].is_discarded = true;
}

void quic_recovery_resend(struct quic_recovery *r, enum quic_space space)
{
    recovery_clear(r, space, true);
}

void quic_recovery_new_path(struct quic_recovery *r, uint64_t now_us)
{
    r->path++;
    r->pto_count = 0;
    r->reordering = QUIC_REORDERING;
    r->reorder_shift = QUIC_REORDER_SHIFT;
    rtt_init(&r->rtt);
    quic_congestion_init(&r->congestion, now_us);
    if (r->ecn != QUIC_ECN_OFF) {
        r->ecn = QUIC_ECN_TESTING;
        r->ecn_sent = r->ecn_lost = 0;
    }
}

void quic_recovery_datagram_size(struct quic_recovery *r, uint32_t size)
{
    r->congestion.datagram = size;
    if (r->congestion.window < quic_congestion_least(&r->congestion)) {
        r->congestion.window = quic_congestion_least(&r->congestion);
    }
}
