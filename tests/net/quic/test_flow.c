/* Tests of flow control, of limits on streams and of their order. */
#include "base/unit.h"

#include "net/quic/flow.h"
#include "net/quic/schedule.h"

static void blocked_is_said_once_for_each_limit(void **state)
{
    struct quic_credit credit;

    quic_credit_init(&credit, 100);
    assert_false(quic_credit_blocked(&credit));
    credit.used = 100;
    assert_true(quic_credit_blocked(&credit));
    assert_false(quic_credit_blocked(&credit));
    quic_credit_blocked_lost(&credit, 50);
    assert_false(quic_credit_blocked(&credit));
    quic_credit_blocked_lost(&credit, 100);
    assert_true(quic_credit_blocked(&credit));
    assert_false(quic_credit_raise(&credit, 90));
    assert_true(quic_credit_raise(&credit, 200));
    assert_false(quic_credit_raise(&credit, 300));
    assert_int_equal(quic_credit_left(&credit), 200);
}

static void a_window_grows_where_it_is_what_limits(void **state)
{
    struct quic_window window;

    quic_window_init(&window, 1000, 5000);
    assert_true(quic_window_receive(&window, 1000));
    assert_false(quic_window_receive(&window, 1));
    assert_false(quic_window_is_due(&window));
    quic_window_consume(&window, 500);
    assert_true(quic_window_is_due(&window));
    assert_int_equal(quic_window_update(&window, 1000000, 50000),
                     1500); /* the first says nothing of the rate */
    assert_true(quic_window_receive(&window, 500));
    quic_window_consume(&window, 500);
    assert_int_equal(quic_window_update(&window, 1050000, 50000), 3000); /* within an RTT */
    quic_window_consume(&window, 500);
    assert_int_equal(quic_window_update(&window, 9000000, 50000), 3500); /* slow */
    assert_int_equal(window.size, 2000);
    quic_window_update(&window, 9000001, 50000);
    quic_window_update(&window, 9000002, 50000);
    quic_window_update(&window, 9000003, 50000);
    assert_int_equal(window.size, 5000);
    quic_window_at_least(&window, 9000);
    assert_int_equal(window.size, 5000);
}

static void a_stream_opens_those_below_it(void **state)
{
    struct quic_peer_streams streams;

    quic_peer_streams_init(&streams, 8);
    assert_int_equal(quic_peer_streams_touch(&streams, 3), 4);
    assert_int_equal(quic_peer_streams_touch(&streams, 1), 0);
    assert_int_equal(quic_peer_streams_touch(&streams, 8), -1);
    assert_int_equal(quic_peer_streams_touch(&streams, UINT64_MAX), -1);
    assert_false(quic_peer_streams_is_due(&streams));
    quic_peer_streams_close(&streams);
    assert_false(quic_peer_streams_is_due(&streams));
    quic_peer_streams_close(&streams);
    assert_true(quic_peer_streams_is_due(&streams));
    assert_int_equal(quic_peer_streams_update(&streams), 10);
    assert_false(quic_peer_streams_is_due(&streams));
    assert_int_equal(quic_peer_streams_touch(&streams, 9), 6);
}

static void no_streams_at_all_are_never_due(void **state)
{
    struct quic_peer_streams streams;

    quic_peer_streams_init(&streams, 0);
    assert_false(quic_peer_streams_is_due(&streams));
    assert_int_equal(quic_peer_streams_touch(&streams, 0), -1);
}

static void urgent_streams_come_first_and_others_by_id(void **state)
{
    struct quic_schedule schedule;
    struct quic_turn turns[4];

    quic_schedule_init(&schedule);
    assert_null(quic_schedule_first(&schedule));
    for (uint64_t i = 0; i < 4; i++) {
        quic_turn_init(&turns[i], 4 * i);
    }
    quic_schedule_add(&schedule, &turns[2]);
    quic_schedule_add(&schedule, &turns[0]);
    quic_schedule_add(&schedule, &turns[1]);
    quic_schedule_add(&schedule, &turns[1]);
    assert_ptr_equal(quic_schedule_first(&schedule), &turns[0]);
    quic_schedule_sent(&schedule, &turns[0], 100000);
    assert_ptr_equal(quic_schedule_first(&schedule), &turns[0]); /* it keeps its turn to the end */
    quic_schedule_prioritize(&schedule, &turns[3], 1, false);
    assert_ptr_equal(quic_schedule_first(&schedule), &turns[0]);
    quic_schedule_add(&schedule, &turns[3]);
    assert_ptr_equal(quic_schedule_first(&schedule), &turns[3]);
    quic_schedule_remove(&schedule, &turns[3]);
    quic_schedule_remove(&schedule, &turns[0]);
    assert_ptr_equal(quic_schedule_first(&schedule), &turns[1]);
    quic_schedule_prioritize(&schedule, &turns[1], 99, false);
    assert_int_equal(turns[1].urgency, 7);
    assert_ptr_equal(quic_schedule_first(&schedule), &turns[2]);
    quic_schedule_remove(&schedule, &turns[2]);
    quic_schedule_remove(&schedule, &turns[1]);
    assert_null(quic_schedule_first(&schedule));
}

static void incremental_streams_take_turns(void **state)
{
    struct quic_schedule schedule;
    struct quic_turn turns[3];
    uint32_t sent[3] = {0};

    quic_schedule_init(&schedule);
    for (uint64_t i = 0; i < 3; i++) {
        quic_turn_init(&turns[i], 4 * i);
        quic_schedule_prioritize(&schedule, &turns[i], 3, true);
        quic_schedule_add(&schedule, &turns[i]);
    }
    for (int packet = 0; packet < 300; packet++) {
        struct quic_turn *turn = quic_schedule_first(&schedule);
        sent[turn - turns] += 1200;
        quic_schedule_sent(&schedule, turn, 1200);
    }
    for (int i = 0; i < 3; i++) {
        assert_in_range(sent[i], 300 * 1200 / 3 - 4800, 300 * 1200 / 3 + 4800);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocked_is_said_once_for_each_limit),
        cmocka_unit_test(a_window_grows_where_it_is_what_limits),
        cmocka_unit_test(a_stream_opens_those_below_it),
        cmocka_unit_test(no_streams_at_all_are_never_due),
        cmocka_unit_test(urgent_streams_come_first_and_others_by_id),
        cmocka_unit_test(incremental_streams_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
