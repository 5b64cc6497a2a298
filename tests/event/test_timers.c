/* Timers: lazy moves, order of firing, removal, and what a forked child inherits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/list.h"
#include "event/loop.h"

/* A timer that notes when it fired. */
struct probe {
    struct timer timer;
    int fired; /* times */
    int order; /* among all probes, of the last firing */
};

static int firings;

static void note(struct timer *timer)
{
    struct probe *probe = container_of(timer, struct probe, timer);

    probe->fired++;
    probe->order = ++firings;
}

static struct probe probe_new(void)
{
    struct probe probe = {0};

    timer_init(&probe.timer, note);
    return probe;
}

static int setup(void **state)
{
    struct loop_options options = {.log = log_main};

    firings = 0;
    return loop_init(&options) ? 0 : -1;
}

static int teardown(void **state)
{
    loop_destroy();
    return 0;
}

static void turn_until_fired(struct probe *probe, int times)
{
    while (probe->fired < times) {
        loop_turn(1000);
    }
}

static void fires_in_order_of_deadlines(void **state)
{
    struct probe a = probe_new();
    struct probe b = probe_new();
    struct probe c = probe_new();

    timer_set(&c.timer, clock_now.now_ms + 12);
    timer_set(&a.timer, clock_now.now_ms + 3);
    timer_set(&b.timer, clock_now.now_ms + 8);
    turn_until_fired(&c, 1);
    assert_int_equal(a.order, 1);
    assert_int_equal(b.order, 2);
    assert_int_equal(c.order, 3);
}

static void of_one_deadline_the_first_fires_first(void **state)
{
    struct probe probes[20];
    uint64_t deadline = clock_now.now_ms + 2;

    for (int i = 0; i < 20; i++) {
        probes[i] = probe_new();
        timer_set(&probes[i].timer, deadline);
    }
    turn_until_fired(&probes[19], 1);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(probes[i].order, i + 1);
    }
}

static void a_deadline_may_be_as_far_as_can_be(void **state)
{
    struct probe far = probe_new();
    struct probe near = probe_new();

    timer_set(&far.timer, NO_DEADLINE - 1);
    timer_set(&near.timer, clock_now.now_ms + 2);
    turn_until_fired(&near, 1);
    assert_int_equal(far.fired, 0);
    timer_remove(&far.timer);
}

static void is_never_early(void **state)
{
    struct probe probe = probe_new();
    uint64_t deadline = clock_now.now_ms + 20;

    timer_set(&probe.timer, deadline);
    turn_until_fired(&probe, 1);
    assert_true(clock_now.now_ms >= deadline);
}

static void moving_later_leaves_the_heap_alone_until_the_old_key(void **state)
{
    struct probe probe = probe_new();
    uint64_t first = clock_now.now_ms + 5;
    uint64_t second = clock_now.now_ms + 25;

    timer_set(&probe.timer, first);
    uint64_t key = probe.timer.node.key;
    timer_set(&probe.timer, second);
    assert_int_equal(probe.timer.node.key, key);
    turn_until_fired(&probe, 1);
    assert_true(clock_now.now_ms >= second);
    assert_int_equal(probe.fired, 1);
}

static void moving_earlier_takes_effect(void **state)
{
    struct probe late = probe_new();
    struct probe probe = probe_new();

    timer_set(&probe.timer, clock_now.now_ms + 3600 * 1000);
    timer_set(&late.timer, clock_now.now_ms + 30);
    timer_set(&probe.timer, clock_now.now_ms + 5);
    turn_until_fired(&late, 1);
    assert_int_equal(probe.order, 1);
}

static void a_cleared_timer_does_not_fire(void **state)
{
    struct probe cleared = probe_new();
    struct probe late = probe_new();

    timer_set(&cleared.timer, clock_now.now_ms + 3);
    timer_set(&late.timer, clock_now.now_ms + 15);
    timer_clear(&cleared.timer);
    turn_until_fired(&late, 1);
    assert_int_equal(cleared.fired, 0);
    assert_int_equal(cleared.timer.node.index, HEAP_OUT);
    /* And it can be used again. */
    timer_set(&cleared.timer, clock_now.now_ms + 1);
    turn_until_fired(&cleared, 1);
}

static void a_cleared_timer_can_be_set_before_its_old_key_came_up(void **state)
{
    struct probe probe = probe_new();
    uint64_t second = clock_now.now_ms + 20;

    timer_set(&probe.timer, clock_now.now_ms + 5);
    timer_clear(&probe.timer);
    timer_set(&probe.timer, second);
    turn_until_fired(&probe, 1);
    assert_true(clock_now.now_ms >= second);
}

static void setting_no_deadline_is_clearing(void **state)
{
    struct probe probe = probe_new();
    struct probe late = probe_new();

    timer_set(&probe.timer, NO_DEADLINE);
    assert_int_equal(probe.timer.node.index, HEAP_OUT);
    timer_set(&probe.timer, clock_now.now_ms + 2);
    timer_set(&probe.timer, NO_DEADLINE);
    timer_set(&late.timer, clock_now.now_ms + 10);
    turn_until_fired(&late, 1);
    assert_int_equal(probe.fired, 0);
}

static struct probe *victim;

static void remove_victim(struct timer *timer)
{
    note(timer);
    timer_remove(&victim->timer);
}

static void a_timer_may_remove_another_that_is_due(void **state)
{
    struct probe killer = probe_new();
    struct probe other = probe_new();

    timer_init(&killer.timer, remove_victim);
    victim = &other;
    timer_set(&killer.timer, clock_now.now_ms + 5);
    timer_set(&other.timer, clock_now.now_ms + 5);
    timer_set(&other.timer, clock_now.now_ms + 6);
    turn_until_fired(&killer, 1);
    struct probe late = probe_new();
    timer_set(&late.timer, clock_now.now_ms + 10);
    turn_until_fired(&late, 1);
    assert_int_equal(other.fired, 0);
}

static void set_again(struct timer *timer)
{
    note(timer);
    timer_set(timer, clock_now.now_ms + 1);
}

static void a_timer_may_set_itself_again(void **state)
{
    struct probe probe = probe_new();

    timer_init(&probe.timer, set_again);
    timer_set(&probe.timer, clock_now.now_ms + 1);
    turn_until_fired(&probe, 3);
    timer_remove(&probe.timer);
}

static void a_new_loop_forgets_the_timers_of_the_old(void **state)
{
    struct loop_options options = {.log = log_main};
    struct probe probe = probe_new();
    struct probe late = probe_new();

    timer_set(&probe.timer, clock_now.now_ms + 1);
    assert_true(loop_init(&options));
    assert_int_equal(probe.timer.node.index, HEAP_OUT);
    timer_set(&late.timer, clock_now.now_ms + 10);
    turn_until_fired(&late, 1);
    assert_int_equal(probe.fired, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fires_in_order_of_deadlines, setup, teardown),
        cmocka_unit_test_setup_teardown(of_one_deadline_the_first_fires_first, setup, teardown),
        cmocka_unit_test_setup_teardown(a_deadline_may_be_as_far_as_can_be, setup, teardown),
        cmocka_unit_test_setup_teardown(is_never_early, setup, teardown),
        cmocka_unit_test_setup_teardown(moving_later_leaves_the_heap_alone_until_the_old_key, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(moving_earlier_takes_effect, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cleared_timer_does_not_fire, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cleared_timer_can_be_set_before_its_old_key_came_up,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(setting_no_deadline_is_clearing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_timer_may_remove_another_that_is_due, setup, teardown),
        cmocka_unit_test_setup_teardown(a_timer_may_set_itself_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_new_loop_forgets_the_timers_of_the_old, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
