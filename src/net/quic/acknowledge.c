/* When an ACK frame is due. */
#include "net/quic/acknowledge.h"

#define FREQUENCY_WINDOW_PART 8u /* an ACK for this part of the window */
#define FREQUENCY_ROUND_PART 4u
#define FREQUENCY_MOST 64u /* packets */
#define DELAY_MOST_US 25000u

void quic_acknowledge_init(struct quic_acknowledge *a, uint32_t most, uint64_t delay_us)
{
    *a = (struct quic_acknowledge){
        .largest = QUIC_NEVER,
        .reported = QUIC_NEVER,
        .due_us = QUIC_NEVER,
        .every = QUIC_ACK_EVERY,
        .reordering = 1,
        .delay_us = delay_us,
    };
    quic_received_init(&a->received, most);
}

void quic_acknowledge_free(struct quic_acknowledge *a)
{
    quic_received_free(&a->received);
}

/* Whether a packet that came after later ones, or after a gap, makes an ACK due at once (RFC 9000, 13.2.1). */
static bool acknowledge_is_out_of_order(const struct quic_acknowledge *a, uint64_t number)
{
    if (a->reordering == 0 || a->largest == QUIC_NEVER) {
        return false;
    }
    if (number < a->largest) {
        return true;
    }
    /* The first number after those that were reported that is missing. */
    uint64_t from =
        a->reported == QUIC_NEVER ? quic_ranges_at(&a->received.ranges, 0).start : a->reported + 1;
    uint64_t missing = quic_ranges_gap(&a->received.ranges, from);
    return missing < number && number - missing >= a->reordering;
}

void quic_acknowledge_packet(struct quic_acknowledge *a, uint64_t number, bool is_eliciting,
                             enum quic_ecn_mark mark, uint64_t now_us)
{
    bool is_ce = mark == QUIC_CE && is_eliciting;

    quic_received_add(&a->received, number);
    a->ect0 += mark == QUIC_ECT0;
    a->ect1 += mark == QUIC_ECT1;
    a->ce += mark == QUIC_CE;
    if (is_eliciting) {
        bool is_at_once = ++a->waiting >= a->every || is_ce || a->delay_us == 0 ||
                          acknowledge_is_out_of_order(a, number);
        uint64_t due_us = is_at_once ? now_us : now_us + a->delay_us;
        a->due_us = due_us < a->due_us ? due_us : a->due_us;
    }
    if (a->largest == QUIC_NEVER || number > a->largest) {
        a->largest = number;
        a->largest_us = now_us;
    }
}

uint64_t quic_acknowledge_delay_us(const struct quic_acknowledge *a, uint64_t now_us)
{
    return now_us - a->largest_us;
}

void quic_acknowledge_sent(struct quic_acknowledge *a)
{
    a->waiting = 0;
    a->due_us = QUIC_NEVER;
    a->reported = a->largest;
}

void quic_acknowledge_acked(struct quic_acknowledge *a, uint64_t number)
{
    quic_received_reported(&a->received, number);
}

void quic_acknowledge_frequency(struct quic_acknowledge *a, const struct quic_ack_frequency *frame)
{
    if (frame->sequence < a->frequency) {
        return;
    }
    a->frequency = frame->sequence + 1;
    a->every = frame->threshold < UINT32_MAX ? (uint32_t) frame->threshold + 1 : UINT32_MAX;
    a->reordering = frame->reordering < UINT32_MAX ? (uint32_t) frame->reordering : UINT32_MAX;
    a->delay_us = frame->delay_us;
}

void quic_acknowledge_at_once(struct quic_acknowledge *a, uint64_t now_us)
{
    a->due_us = now_us < a->due_us ? now_us : a->due_us;
}

bool quic_ack_frequency_ask(struct quic_ack_frequency *last, const struct quic_recovery *r,
                            uint64_t min_ack_delay_us)
{
    uint64_t packets = r->congestion.window / r->congestion.datagram / FREQUENCY_WINDOW_PART;
    uint64_t delay_us = r->rtt.smoothed_us / FREQUENCY_ROUND_PART;

    packets = packets < QUIC_ACK_EVERY ? QUIC_ACK_EVERY : packets;
    packets = packets > FREQUENCY_MOST ? FREQUENCY_MOST : packets;
    delay_us = delay_us > DELAY_MOST_US ? DELAY_MOST_US : delay_us;
    delay_us = delay_us < min_ack_delay_us ? min_ack_delay_us : delay_us;
    bool is_alike = packets - 1 < 2 * last->threshold && last->threshold < 2 * packets &&
                    delay_us < 2 * last->delay_us && last->delay_us < 2 * delay_us;
    if (r->rtt.first_sample_us == 0 || is_alike) {
        return false;
    }
    last->sequence++;
    last->threshold = packets - 1;
    last->delay_us = delay_us;
    last->reordering = r->reordering;
    return true;
}
