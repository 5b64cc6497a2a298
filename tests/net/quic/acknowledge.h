/* When an ACK frame is due, for the ends of the simulator (RFC 9000, 13.2). */
#ifndef TESTS_NET_QUIC_ACKNOWLEDGE_H
#define TESTS_NET_QUIC_ACKNOWLEDGE_H

#include "net/quic/recovery.h"

enum sim_mark { SIM_NOT_ECT, SIM_ECT1, SIM_ECT0, SIM_CE }; /* the bits of the IP header */

struct sim_acknowledge {
    struct quic_received received;
    uint64_t largest;    /* number; QUIC_NEVER: none */
    uint64_t largest_us; /* when it came */
    uint64_t reported;   /* the largest number of the last ACK frame; QUIC_NEVER: none */
    uint64_t due_us;     /* QUIC_NEVER: no ACK is due */
    uint32_t waiting;    /* packets that ask for an acknowledgement and were not reported */
    uint64_t delay_us;   /* max_ack_delay */
    uint64_t ect0, ect1, ce;
};

static void sim_acknowledge_init(struct sim_acknowledge *a, uint32_t most, uint64_t delay_us)
{
    *a = (struct sim_acknowledge){.largest = QUIC_NEVER,
                                  .reported = QUIC_NEVER,
                                  .due_us = QUIC_NEVER,
                                  .delay_us = delay_us};
    quic_received_init(&a->received, most);
}

/* Whether a packet came after later ones, or after a gap (13.2.1). */
static bool sim_acknowledge_is_out_of_order(const struct sim_acknowledge *a, uint64_t number)
{
    if (a->largest == QUIC_NEVER || number < a->largest) {
        return a->largest != QUIC_NEVER;
    }
    uint64_t from =
        a->reported == QUIC_NEVER ? quic_ranges_at(&a->received.ranges, 0).start : a->reported + 1;
    return quic_ranges_gap(&a->received.ranges, from) < number;
}

static void sim_acknowledge_packet(struct sim_acknowledge *a, uint64_t number, bool is_eliciting,
                                   enum sim_mark mark, uint64_t now_us)
{
    quic_received_add(&a->received, number);
    a->ect0 += mark == SIM_ECT0;
    a->ect1 += mark == SIM_ECT1;
    a->ce += mark == SIM_CE;
    if (is_eliciting) {
        bool is_at_once =
            ++a->waiting >= 2 || mark == SIM_CE || sim_acknowledge_is_out_of_order(a, number);
        uint64_t due_us = is_at_once ? now_us : now_us + a->delay_us;
        a->due_us = due_us < a->due_us ? due_us : a->due_us;
    }
    if (a->largest == QUIC_NEVER || number > a->largest) {
        a->largest = number;
        a->largest_us = now_us;
    }
}

static void sim_acknowledge_sent(struct sim_acknowledge *a)
{
    a->waiting = 0;
    a->due_us = QUIC_NEVER;
    a->reported = a->largest;
}

#endif
