/* Tests of loss detection, step by step; whole transfers are in test_simulator.c. */
#include "base/unit.h"

#include "net/quic/recovery.h"

#define BEGIN_US 1000000u

struct fixture {
    struct quic_sent_pool pool;
    struct quic_recovery r;
    uint64_t acked[64]; /* ids of frames */
    uint64_t lost[64];
    size_t acked_count, lost_count;
};

static void note_acked(void *owner, enum quic_space space, const struct quic_carried *frame)
{
    struct fixture *f = owner;
    f->acked[f->acked_count++ % 64] = frame->id;
}

static void note_lost(void *owner, enum quic_space space, const struct quic_carried *frame)
{
    struct fixture *f = owner;
    f->lost[f->lost_count++ % 64] = frame->id;
}

static const struct quic_recovery_owner owner = {note_acked, note_lost};

static void start_as(struct fixture *f, bool is_server)
{
    *f = (struct fixture){0};
    quic_sent_pool_init(&f->pool);
    quic_recovery_init(&f->r,
                       &(struct quic_recovery_setup){
                           .pool = &f->pool,
                           .events = &owner,
                           .owner = f,
                           .control = &quic_cubic,
                           .random = 7,
                           .datagram_size = 1200,
                           .is_server = is_server,
                           .has_ecn = true,
                       },
                       BEGIN_US);
    f->r.is_handshake_confirmed = f->r.is_peer_validated = is_server;
}

static void start(struct fixture *f)
{
    start_as(f, true);
}

static void end(struct fixture *f)
{
    quic_recovery_free(&f->r);
    quic_sent_pool_free(&f->pool);
}

/* A full packet with one frame, whose id is the packet's number. */
static uint64_t send_in(struct fixture *f, enum quic_space space, uint64_t now_us)
{
    struct quic_sent *sent = quic_sent_new(&f->r);

    sent->number = quic_recovery_number(&f->r, space);
    sent->size = 1200;
    quic_sent_carry(&f->r, sent,
                    &(struct quic_carried){.kind = QUIC_CARRIED_OTHER, .id = sent->number});
    quic_recovery_sent(&f->r, space, sent, now_us);
    return sent->number;
}

static uint64_t send_one(struct fixture *f, uint64_t now_us)
{
    return send_in(f, QUIC_SPACE_APPLICATION, now_us);
}

/* Acknowledges first … last. */
static enum quic_ack_result ack_in(struct fixture *f, enum quic_space space, uint64_t first,
                                   uint64_t last, uint64_t now_us)
{
    struct quic_range range = {first, last + 1};
    struct quic_ack ack = {.ranges = &range, .count = 1};

    return quic_recovery_ack(&f->r, space, &ack, now_us);
}

static enum quic_ack_result ack_some(struct fixture *f, uint64_t first, uint64_t last,
                                     uint64_t now_us)
{
    return ack_in(f, QUIC_SPACE_APPLICATION, first, last, now_us);
}

static void the_first_round_trip_is_taken_as_it_is(void **state)
{
    struct fixture f;

    start(&f);
    assert_int_equal(quic_recovery_deadline(&f.r), QUIC_NEVER);
    send_one(&f, BEGIN_US);
    assert_int_equal(quic_recovery_deadline(&f.r), BEGIN_US + 333000 + 4 * 166500 + 25000);
    assert_int_equal(ack_some(&f, 0, 0, BEGIN_US + 40000), QUIC_ACK_NEW);
    assert_int_equal(f.r.rtt.smoothed_us, 40000);
    assert_int_equal(f.r.rtt.variance_us, 20000);
    assert_int_equal(f.acked_count, 1);
    assert_int_equal(f.r.congestion.in_flight, 0);
    assert_int_equal(quic_recovery_deadline(&f.r), QUIC_NEVER);
    assert_int_equal(ack_some(&f, 0, 0, BEGIN_US + 50000), QUIC_ACK_OLD);
    end(&f);
}

static void the_delay_of_the_peer_is_taken_off(void **state)
{
    struct fixture f;
    struct quic_range range = {1, 2};
    struct quic_ack ack = {.ranges = &range, .count = 1, .delay_us = 20000};

    start(&f);
    send_one(&f, BEGIN_US);
    ack_some(&f, 0, 0, BEGIN_US + 40000);
    send_one(&f, BEGIN_US + 100000);
    quic_recovery_ack(&f.r, QUIC_SPACE_APPLICATION, &ack, BEGIN_US + 160000);
    assert_int_equal(f.r.rtt.latest_us, 60000);
    assert_int_equal(f.r.rtt.smoothed_us, 40000);
    send_one(&f, BEGIN_US + 200000);
    range = (struct quic_range){2, 3};
    ack.delay_us = 900000; /* more than the peer has announced */
    quic_recovery_ack(&f.r, QUIC_SPACE_APPLICATION, &ack, BEGIN_US + 273000);
    assert_int_equal(f.r.rtt.smoothed_us, (7 * 40000 + 48000) / 8);
    end(&f);
}

static void three_later_packets_make_one_lost(void **state)
{
    struct fixture f;

    start(&f);
    for (int i = 0; i < 4; i++) {
        send_one(&f, BEGIN_US);
    }
    ack_some(&f, 1, 2, BEGIN_US + 50000);
    assert_int_equal(f.lost_count, 0);
    ack_some(&f, 3, 3, BEGIN_US + 50001);
    assert_int_equal(f.lost_count, 1);
    assert_int_equal(f.lost[0], 0);
    assert_int_equal(f.r.congestion.reductions, 1);
    assert_int_equal(f.r.outstanding, 0);
    end(&f);
}

static void time_makes_a_packet_lost(void **state)
{
    struct fixture f;

    start(&f);
    send_one(&f, BEGIN_US);
    send_one(&f, BEGIN_US);
    ack_some(&f, 1, 1, BEGIN_US + 80000);
    assert_int_equal(f.lost_count, 0);
    assert_int_equal(quic_recovery_deadline(&f.r), BEGIN_US + 90000);
    quic_recovery_expired(&f.r, BEGIN_US + 89999);
    assert_int_equal(f.lost_count, 0);
    quic_recovery_expired(&f.r, BEGIN_US + 90000);
    assert_int_equal(f.lost_count, 1);
    assert_int_equal(f.r.pto_count, 0);
    end(&f);
}

static void a_probe_repeats_the_oldest_and_backs_off(void **state)
{
    struct fixture f;

    start(&f);
    for (int i = 0; i < 5; i++) {
        send_one(&f, BEGIN_US);
    }
    uint64_t first_us = quic_recovery_deadline(&f.r);
    quic_recovery_expired(&f.r, first_us);
    assert_int_equal(f.lost_count, 2);
    assert_int_equal(f.lost[1], 1);
    assert_int_equal(f.r.outstanding, 5); /* they may have arrived */
    assert_int_equal(f.r.congestion.reductions, 0);
    assert_int_equal(quic_recovery_probes(&f.r, QUIC_SPACE_APPLICATION), 2);
    send_one(&f, first_us);
    assert_int_equal(quic_recovery_probes(&f.r, QUIC_SPACE_APPLICATION), 1);
    assert_int_equal(quic_recovery_deadline(&f.r) - first_us, 2 * (first_us - BEGIN_US));
    ack_some(&f, 5, 5, first_us + 40000);
    assert_int_equal(f.r.pto_count, 0);
    assert_int_equal(quic_recovery_probes(&f.r, QUIC_SPACE_APPLICATION), 0);
    end(&f);
}

static void numbers_that_were_never_sent_are_refused(void **state)
{
    struct fixture f;
    uint64_t number = 0, left_out = 0;

    start(&f);
    send_one(&f, BEGIN_US);
    assert_int_equal(ack_some(&f, 0, 1, BEGIN_US + 1000), QUIC_ACK_FORGED);
    assert_int_equal(ack_in(&f, QUIC_SPACE_INITIAL, 0, 0, BEGIN_US + 1000), QUIC_ACK_FORGED);
    for (int i = 0; i < 200; i++) {
        uint64_t next = send_one(&f, BEGIN_US);
        left_out = next != number + 1 ? number + 1 : left_out;
        number = next;
    }
    assert_int_not_equal(left_out, 0);
    assert_int_equal(ack_some(&f, left_out - 1, left_out + 1, BEGIN_US + 1000), QUIC_ACK_FORGED);
    assert_int_equal(f.acked_count, 0);
    assert_int_equal(ack_some(&f, 0, left_out - 1, BEGIN_US + 1000), QUIC_ACK_NEW);
    assert_int_equal(ack_some(&f, left_out + 1, number, BEGIN_US + 1000), QUIC_ACK_NEW);
    end(&f);
}

static void a_late_arrival_undoes_the_reduction(void **state)
{
    struct fixture f;

    start(&f);
    for (int i = 0; i < 10; i++) {
        send_one(&f, BEGIN_US);
    }
    uint64_t window = f.r.congestion.window;
    ack_some(&f, 5, 5, BEGIN_US + 50000);
    assert_int_equal(f.lost_count, 3); /* 0, 1, 2 */
    assert_true(f.r.congestion.window < window);
    ack_some(&f, 0, 2, BEGIN_US + 51000);
    assert_int_equal(f.r.packets_spurious, 3);
    assert_int_equal(f.r.congestion.window, window);
    assert_int_equal(f.acked_count, 4);
    assert_true(f.r.reordering > 3);
    end(&f);
}

static void losses_over_a_long_time_are_persistent_congestion(void **state)
{
    for (int is_broken = 0; is_broken < 2; is_broken++) {
        struct fixture f;
        uint64_t last = 0;

        start(&f);
        send_one(&f, BEGIN_US);
        ack_some(&f, 0, 0, BEGIN_US + 50000);
        for (int i = 0; i < 10; i++) { /* 3 (50 + 100 + 25) = 525 ms */
            last = send_one(&f, BEGIN_US + 100000 + (uint64_t) i * 100000);
            if (i == 5 && is_broken) {
                ack_some(&f, last, last, BEGIN_US + 100000 + 550000);
            }
        }
        last = send_one(&f, BEGIN_US + 2000000);
        ack_some(&f, last, last, BEGIN_US + 2050000);
        assert_int_equal(f.r.congestion.window == 2400, !is_broken);
        end(&f);
    }
}

static void a_client_probes_though_nothing_is_in_flight(void **state)
{
    struct fixture f;

    start_as(&f, false);
    send_in(&f, QUIC_SPACE_INITIAL, BEGIN_US);
    ack_in(&f, QUIC_SPACE_INITIAL, 0, 0, BEGIN_US + 50000);
    uint64_t at_us = quic_recovery_deadline(&f.r);
    assert_int_equal(at_us, BEGIN_US + 50000 + 50000 + 100000);
    quic_recovery_expired(&f.r, at_us);
    assert_int_not_equal(quic_recovery_probes(&f.r, QUIC_SPACE_INITIAL), 0);
    f.r.has_handshake_keys = true;
    quic_recovery_discard(&f.r, QUIC_SPACE_INITIAL);
    at_us = quic_recovery_deadline(&f.r);
    quic_recovery_expired(&f.r, at_us);
    assert_int_not_equal(quic_recovery_probes(&f.r, QUIC_SPACE_HANDSHAKE), 0);
    f.r.is_peer_validated = true;
    assert_int_equal(quic_recovery_deadline(&f.r), QUIC_NEVER);
    end(&f);
}

static void a_server_that_may_not_send_has_no_timer(void **state)
{
    struct fixture f;

    start(&f);
    send_in(&f, QUIC_SPACE_HANDSHAKE, BEGIN_US);
    f.r.is_amplification_limited = true;
    assert_int_equal(quic_recovery_deadline(&f.r), QUIC_NEVER);
    f.r.is_amplification_limited = false;
    assert_int_not_equal(quic_recovery_deadline(&f.r), QUIC_NEVER);
    end(&f);
}

static void a_discarded_space_is_no_longer_in_flight(void **state)
{
    struct fixture f;

    start(&f);
    send_in(&f, QUIC_SPACE_INITIAL, BEGIN_US);
    send_in(&f, QUIC_SPACE_HANDSHAKE, BEGIN_US);
    quic_recovery_discard(&f.r, QUIC_SPACE_INITIAL);
    assert_int_equal(f.r.congestion.in_flight, 1200);
    assert_int_equal(f.lost_count + f.acked_count, 0);
    quic_recovery_resend(&f.r, QUIC_SPACE_HANDSHAKE);
    assert_int_equal(f.lost_count, 1);
    assert_int_equal(f.r.congestion.in_flight, 0);
    assert_int_equal(f.r.congestion.reductions, 0);
    end(&f);
}

static void the_window_of_a_new_path_is_its_own(void **state)
{
    struct fixture f;

    start(&f);
    for (int i = 0; i < 8; i++) {
        send_one(&f, BEGIN_US);
    }
    quic_recovery_new_path(&f.r, BEGIN_US + 1000);
    assert_int_equal(f.r.congestion.in_flight, 0);
    send_one(&f, BEGIN_US + 2000);
    ack_some(&f, 0, 6, BEGIN_US + 50000);
    assert_int_equal(f.acked_count, 7);
    assert_int_equal(f.r.congestion.in_flight, 1200);
    assert_int_equal(f.r.rtt.first_sample_us, 0); /* the RTT was another path's */
    ack_some(&f, 8, 8, BEGIN_US + 60000);
    assert_int_equal(f.r.rtt.latest_us, 58000);
    assert_int_equal(f.r.congestion.in_flight, 0);
    end(&f);
}

static void a_lost_mtu_probe_is_no_congestion(void **state)
{
    struct fixture f;

    start(&f);
    struct quic_sent *sent = quic_sent_new(&f.r);
    sent->number = quic_recovery_number(&f.r, QUIC_SPACE_APPLICATION);
    sent->size = 1500;
    quic_sent_carry(&f.r, sent,
                    &(struct quic_carried){.kind = QUIC_CARRIED_MTU_PROBE, .len = 1500, .id = 99});
    quic_recovery_sent(&f.r, QUIC_SPACE_APPLICATION, sent, BEGIN_US);
    for (int i = 0; i < 3; i++) {
        send_one(&f, BEGIN_US);
    }
    ack_some(&f, 1, 3, BEGIN_US + 50000);
    assert_int_equal(f.lost_count, 1);
    assert_int_equal(f.lost[0], 99);
    assert_int_equal(f.r.congestion.reductions, 0);
    end(&f);
}

static void many_frames_of_a_packet_are_reported(void **state)
{
    struct fixture f;

    start(&f);
    for (int round = 0; round < 2; round++) { /* the second takes what the first gave back */
        struct quic_sent *sent = quic_sent_new(&f.r);
        uint64_t seen = 0;

        sent->number = quic_recovery_number(&f.r, QUIC_SPACE_APPLICATION);
        sent->size = 1200;
        for (uint64_t id = 0; id < 20; id++) {
            quic_sent_carry(&f.r, sent,
                            &(struct quic_carried){.kind = QUIC_CARRIED_OTHER, .id = id});
        }
        quic_recovery_sent(&f.r, QUIC_SPACE_APPLICATION, sent, BEGIN_US);
        f.acked_count = 0;
        ack_some(&f, sent->number, sent->number, BEGIN_US + 1000);
        assert_int_equal(f.acked_count, 20);
        for (size_t i = 0; i < 20; i++) {
            seen |= 1ull << f.acked[i];
        }
        assert_int_equal(seen, (1 << 20) - 1);
    }
    end(&f);
}

/* ECN counts that cannot be (RFC 9000, 13.4.2.1). */
static void marks_are_left_off_where_they_are_lost(void **state)
{
    static const struct {
        bool has_ecn;
        uint64_t ect0, ect1, ce;
        enum quic_ecn expected;
    } cases[] = {
        {true, 2, 0, 0, QUIC_ECN_CAPABLE}, {true, 1, 0, 1, QUIC_ECN_CAPABLE},
        {true, 1, 0, 0, QUIC_ECN_FAILED},  {true, 0, 2, 0, QUIC_ECN_FAILED},
        {false, 0, 0, 0, QUIC_ECN_FAILED},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fixture f;
        struct quic_range range = {0, 2};
        struct quic_ack ack = {&range,        1,          0, cases[i].has_ecn, cases[i].ect0,
                               cases[i].ect1, cases[i].ce};

        start(&f);
        for (int n = 0; n < 2; n++) {
            struct quic_sent *sent = quic_sent_new(&f.r);
            sent->number = quic_recovery_number(&f.r, QUIC_SPACE_APPLICATION);
            sent->size = 1200;
            sent->is_ect = quic_recovery_marks(&f.r);
            quic_recovery_sent(&f.r, QUIC_SPACE_APPLICATION, sent, BEGIN_US);
        }
        assert_int_equal(quic_recovery_ack(&f.r, QUIC_SPACE_APPLICATION, &ack, BEGIN_US + 50000),
                         QUIC_ACK_NEW);
        assert_int_equal(f.r.ecn, cases[i].expected);
        assert_int_equal(f.r.congestion.reductions, cases[i].ce);
        end(&f);
    }
}

static void a_sender_with_little_to_say_gets_no_larger_window(void **state)
{
    struct fixture f;

    start(&f);
    uint64_t window = f.r.congestion.window, now_us = BEGIN_US;
    for (int i = 0; i < 50; i++) {
        uint64_t number = send_one(&f, now_us);
        quic_recovery_app_limited(&f.r);
        ack_some(&f, number, number, now_us + 50000);
        now_us += 60000;
    }
    assert_int_equal(f.r.congestion.window, window);
    end(&f);
}

static void the_window_does_not_grow_without_end(void **state)
{
    struct fixture f;
    uint64_t now_us = BEGIN_US;

    start(&f);
    for (int round = 0; round < 14; round++) {
        uint64_t first = f.r.spaces[QUIC_SPACE_APPLICATION].next_number, last = first;
        while (quic_recovery_allowance(&f.r, now_us += 10) != 0 ||
               quic_recovery_paced_until(&f.r, now_us) != QUIC_NEVER) {
            last = send_one(&f, now_us);
        }
        now_us += 50000;
        for (uint64_t number = first; number <= last; number++) {
            ack_some(&f, number, number, now_us); /* a number that was left out is refused */
        }
    }
    assert_int_equal(f.r.congestion.window, QUIC_WINDOW_MOST);
    end(&f);
}

static void the_window_and_the_pace_hold_packets_back(void **state)
{
    struct fixture f;
    uint64_t sent = 0, now_us = BEGIN_US;

    start(&f);
    send_one(&f, now_us);
    ack_some(&f, 0, 0, now_us + 100000);
    now_us += 100000;
    while (quic_recovery_allowance(&f.r, now_us) != 0) {
        send_one(&f, now_us);
        sent++;
    }
    assert_int_equal(sent, 10); /* a burst, of a window of 11 */
    uint64_t ready_us = quic_recovery_paced_until(&f.r, now_us);
    assert_in_range(ready_us, now_us + 1, now_us + 6000);
    assert_int_equal(quic_recovery_allowance(&f.r, ready_us - 1), 0);
    assert_int_not_equal(quic_recovery_allowance(&f.r, ready_us), 0);
    send_one(&f, ready_us);
    send_one(&f, ready_us);
    assert_int_equal(quic_recovery_allowance(&f.r, ready_us + 1000000), 0);
    assert_int_equal(quic_recovery_paced_until(&f.r, ready_us + 1000000), QUIC_NEVER);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_round_trip_is_taken_as_it_is),
        cmocka_unit_test(the_delay_of_the_peer_is_taken_off),
        cmocka_unit_test(three_later_packets_make_one_lost),
        cmocka_unit_test(time_makes_a_packet_lost),
        cmocka_unit_test(a_probe_repeats_the_oldest_and_backs_off),
        cmocka_unit_test(numbers_that_were_never_sent_are_refused),
        cmocka_unit_test(a_late_arrival_undoes_the_reduction),
        cmocka_unit_test(losses_over_a_long_time_are_persistent_congestion),
        cmocka_unit_test(a_client_probes_though_nothing_is_in_flight),
        cmocka_unit_test(a_server_that_may_not_send_has_no_timer),
        cmocka_unit_test(a_discarded_space_is_no_longer_in_flight),
        cmocka_unit_test(the_window_of_a_new_path_is_its_own),
        cmocka_unit_test(a_lost_mtu_probe_is_no_congestion),
        cmocka_unit_test(many_frames_of_a_packet_are_reported),
        cmocka_unit_test(marks_are_left_off_where_they_are_lost),
        cmocka_unit_test(a_sender_with_little_to_say_gets_no_larger_window),
        cmocka_unit_test(the_window_does_not_grow_without_end),
        cmocka_unit_test(the_window_and_the_pace_hold_packets_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
