/* How often packets are acknowledged: as the peer asks us, and as we ask the peer
 * (draft-ietf-quic-ack-frequency). */
#include "net/quic/private.h"

#define ACK_THRESHOLD 1u /* an ACK for every second packet (RFC 9000, 13.2.2) */
#define ACK_DELAY_MOST_US                                                                          \
    (UINT64_C(1000) << 14)       /* to which a transport parameter is bound (RFC 9000, 18.2) */
#define ASKED_THRESHOLD_MOST 31u /* packets: of a train of ours, one or two ACKs come back */
#define ACKS_OF_WINDOW 8u        /* that are left of a window, so that it keeps its clock */

void quic_ack_rules_init(struct quic_connection *c)
{
    c->acks = (struct quic_ack_rule){.number = QUIC_NUMBER_NONE,
                                     .threshold = ACK_THRESHOLD,
                                     .delay_us = 1000 * c->own.max_ack_delay_ms,
                                     .reordering = 1};
    c->asked = c->acks;
}

/* ---- the receiver ---- */

/* Section 6.2: the first packet that is missing and that an ACK has not shown to be so. */
static uint64_t first_missing(const struct quic_connection *c, const struct quic_level *level)
{
    uint64_t from = level->reported == QUIC_NUMBER_NONE ? 0 : level->reported + 1;

    from = from < c->acks.reordering ? 0 : from - c->acks.reordering;
    if (from < level->received.below) {
        from = level->received.below;
    }
    return quic_ranges_gap(&level->received.ranges, from);
}

bool quic_ack_is_due(const struct quic_connection *c, const struct quic_level *level,
                     uint64_t number, uint64_t before)
{
    if (level->unacknowledged > c->acks.threshold) {
        return true;
    }
    if (c->acks.reordering <= 1) {
        return c->acks.reordering == 1 && before != QUIC_NUMBER_NONE && number != before + 1;
    }
    return level->largest >= first_missing(c, level) + c->acks.reordering;
}

void quic_ack_frequency_received(struct quic_connection *c, const struct quic_frame *frame)
{
    if (frame->ack_frequency.delay_us < QUIC_ACK_DELAY_LEAST_US) {
        quic_refuse(c, QUIC_PROTOCOL_VIOLATION, frame->type,
                    "ACK_FREQUENCY with too short a delay");
        return;
    }
    if (c->acks.number != QUIC_NUMBER_NONE && frame->ack_frequency.number <= c->acks.number) {
        return; /* an older one that comes late */
    }
    c->acks = (struct quic_ack_rule){
        .number = frame->ack_frequency.number,
        .threshold = frame->ack_frequency.threshold,
        .delay_us = frame->ack_frequency.delay_us < ACK_DELAY_MOST_US
                        ? frame->ack_frequency.delay_us
                        : ACK_DELAY_MOST_US,
        .reordering = frame->ack_frequency.reordering,
    };
}

/* ---- the sender ---- */

/* Section 8: some ACKs for each window, and the first losses are heard of as soon as before. */
static uint64_t wanted_threshold(const struct quic_connection *c)
{
    const struct quic_congestion *congestion = &c->recovery.congestion;
    uint64_t packets = congestion->window / congestion->datagram / ACKS_OF_WINDOW;

    return packets < ACK_THRESHOLD          ? ACK_THRESHOLD
           : packets > ASKED_THRESHOLD_MOST ? ASKED_THRESHOLD_MOST
                                            : packets;
}

static uint64_t wanted_delay_us(const struct quic_connection *c)
{
    uint64_t delay = c->recovery.rtt.smoothed_us / 4, most = 1000 * c->peer.max_ack_delay_ms;

    delay = delay < c->peer.min_ack_delay_us ? c->peer.min_ack_delay_us : delay;
    return delay < most ? delay : most; /* so that our probes need not wait longer */
}

void quic_ack_request(struct quic_connection *c, uint64_t now_us)
{
    struct quic_ack_rule *asked = &c->asked;

    if (c->peer.min_ack_delay_us == 0 || !c->is_confirmed ||
        now_us - c->asked_us < c->recovery.rtt.smoothed_us) {
        return;
    }
    c->asked_us = now_us;
    uint64_t threshold = wanted_threshold(c);
    if (threshold < 2 * asked->threshold && 2 * threshold > asked->threshold) {
        return;
    }
    *asked = (struct quic_ack_rule){
        .number = asked->number == QUIC_NUMBER_NONE ? 0 : asked->number + 1,
        .threshold = threshold,
        .delay_us = wanted_delay_us(c),
        .reordering = QUIC_REORDERING,
    };
    c->pending |= QUIC_PENDING_ACK_FREQUENCY;
}

void quic_ack_request_lost(struct quic_connection *c, uint64_t number)
{
    if (number == c->asked.number) {
        c->pending |= QUIC_PENDING_ACK_FREQUENCY;
    }
}
