/* Tests of when an ACK frame is due. */
#include "base/unit.h"

#include "net/quic/acknowledge.h"

#define DELAY_US 25000u

static void take(struct quic_acknowledge *a, uint64_t number, uint64_t now_us)
{
    quic_acknowledge_packet(a, number, true, QUIC_NOT_ECT, now_us);
}

static void one_packet_waits_and_the_second_does_not(void **state)
{
    struct quic_acknowledge a;

    quic_acknowledge_init(&a, 32, DELAY_US);
    assert_false(quic_acknowledge_wants(&a));
    take(&a, 0, 1000);
    assert_true(quic_acknowledge_wants(&a));
    assert_int_equal(a.due_us, 1000 + DELAY_US);
    take(&a, 1, 2000);
    assert_true(quic_acknowledge_is_due(&a, 2000));
    assert_int_equal(quic_acknowledge_delay_us(&a, 2500), 500);
    quic_acknowledge_sent(&a);
    assert_false(quic_acknowledge_wants(&a));
    assert_int_equal(a.due_us, QUIC_NEVER);
    quic_acknowledge_packet(&a, 2, false, QUIC_NOT_ECT, 3000);
    quic_acknowledge_packet(&a, 3, false, QUIC_NOT_ECT, 3000);
    assert_false(quic_acknowledge_wants(&a)); /* ACKs are not acknowledged by themselves */
    quic_acknowledge_free(&a);
}

static void a_packet_out_of_order_is_reported_at_once(void **state)
{
    struct quic_acknowledge a;

    quic_acknowledge_init(&a, 32, DELAY_US);
    take(&a, 0, 1000);
    quic_acknowledge_sent(&a);
    take(&a, 2, 2000); /* 1 is missing */
    assert_true(quic_acknowledge_is_due(&a, 2000));
    quic_acknowledge_sent(&a);
    take(&a, 3, 3000); /* the gap is known */
    assert_false(quic_acknowledge_is_due(&a, 3000));
    quic_acknowledge_sent(&a);
    take(&a, 1, 4000);
    assert_true(quic_acknowledge_is_due(&a, 4000));
    quic_acknowledge_free(&a);
}

static void handshakes_and_congestion_do_not_wait(void **state)
{
    struct quic_acknowledge a;

    quic_acknowledge_init(&a, 32, 0);
    take(&a, 0, 1000);
    assert_true(quic_acknowledge_is_due(&a, 1000));
    quic_acknowledge_free(&a);

    quic_acknowledge_init(&a, 32, DELAY_US);
    quic_acknowledge_packet(&a, 0, true, QUIC_ECT0, 1000);
    assert_false(quic_acknowledge_is_due(&a, 1000));
    quic_acknowledge_packet(&a, 1, false, QUIC_CE, 1000);
    assert_false(quic_acknowledge_is_due(&a, 1000));
    quic_acknowledge_sent(&a);
    quic_acknowledge_packet(&a, 2, true, QUIC_CE, 1000);
    assert_true(quic_acknowledge_is_due(&a, 1000));
    assert_int_equal(a.ect0, 1);
    assert_int_equal(a.ce, 2);
    quic_acknowledge_free(&a);
}

static void the_peer_may_ask_for_fewer(void **state)
{
    struct quic_acknowledge a;

    quic_acknowledge_init(&a, 32, DELAY_US);
    quic_acknowledge_frequency(&a, &(struct quic_ack_frequency){.sequence = 1,
                                                                .threshold = 9,
                                                                .delay_us = 5000,
                                                                .reordering = 3});
    quic_acknowledge_frequency(&a, &(struct quic_ack_frequency){.sequence = 0,
                                                                .threshold = 1}); /* older */
    for (uint64_t number = 0; number < 9; number++) {
        take(&a, number, 1000);
        assert_int_equal(a.due_us, 6000);
    }
    take(&a, 9, 1000);
    assert_true(quic_acknowledge_is_due(&a, 1000));
    quic_acknowledge_sent(&a);
    take(&a, 11, 2000); /* 10 is missing, for 1, 2, 3 packets */
    take(&a, 12, 2000);
    assert_false(quic_acknowledge_is_due(&a, 2000));
    take(&a, 13, 2000);
    assert_true(quic_acknowledge_is_due(&a, 2000));
    quic_acknowledge_sent(&a);
    quic_acknowledge_at_once(&a, 3000);
    assert_true(quic_acknowledge_is_due(&a, 3000));
    assert_true(quic_acknowledge_wants(&a));
    quic_acknowledge_free(&a);
}

static void what_is_asked_follows_the_window(void **state)
{
    struct quic_ack_frequency last = {0};
    struct quic_recovery r = {.reordering = 3};

    r.congestion.datagram = 1200;
    r.congestion.window = 12000;
    r.rtt.smoothed_us = 40000;
    assert_false(quic_ack_frequency_ask(&last, &r, 1000)); /* no RTT yet */
    r.rtt.first_sample_us = 1;
    assert_true(quic_ack_frequency_ask(&last, &r, 1000));
    assert_int_equal(last.threshold, 1);
    assert_int_equal(last.delay_us, 10000);
    assert_false(quic_ack_frequency_ask(&last, &r, 1000));
    r.congestion.window = 1200 * 80;
    assert_true(quic_ack_frequency_ask(&last, &r, 1000));
    assert_int_equal(last.threshold, 9);
    assert_int_equal(last.sequence, 2);
    r.congestion.window = 1200 * 100;
    assert_false(quic_ack_frequency_ask(&last, &r, 1000));
    r.congestion.window = 12000000;
    r.rtt.smoothed_us = 1000000;
    assert_true(quic_ack_frequency_ask(&last, &r, 1000));
    assert_int_equal(last.threshold, 63);
    assert_int_equal(last.delay_us, 25000);
    r.rtt.smoothed_us = 500;
    assert_true(quic_ack_frequency_ask(&last, &r, 1000));
    assert_int_equal(last.delay_us, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_packet_waits_and_the_second_does_not),
        cmocka_unit_test(a_packet_out_of_order_is_reported_at_once),
        cmocka_unit_test(handshakes_and_congestion_do_not_wait),
        cmocka_unit_test(the_peer_may_ask_for_fewer),
        cmocka_unit_test(what_is_asked_follows_the_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
