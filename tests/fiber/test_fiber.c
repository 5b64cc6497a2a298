/* Fibers: start and end, wait and wake, deadlines, the worker's own stack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fiber/fiber.h"
#include "waiters.h"

static void run_note(void *arg)
{
    assert_non_null(fiber_self());
    note(*(char *) arg);
}

static void a_fiber_that_does_not_wait_ends_at_once(void **state)
{
    struct fiber *fiber = (struct fiber *) 1;
    char letter = 'a';

    assert_null(fiber_self());
    assert_int_equal(fiber_start(run_note, &letter, &fiber), FIBER_ENDED);
    assert_null(fiber);
    assert_int_equal(fiber_start(run_note, &letter, NULL), FIBER_ENDED);
    assert_string_equal(trace, "aa");
    assert_null(fiber_self());
}

static void signal_on_the_workers_stack_switches_at_once(void **state)
{
    struct waiter a;
    struct waiter b;

    assert_int_equal(start_waiter(&a, 'a', FIBER_NEVER), FIBER_WAITING);
    assert_non_null(a.fiber);
    assert_ptr_equal(a.point.waiter, a.fiber);
    assert_int_equal(start_waiter(&b, 'b', FIBER_NEVER), FIBER_WAITING);
    assert_string_equal(trace, "ab");
    wait_signal(&b.point);
    assert_string_equal(trace, "abRb");
    wait_signal(&a.point);
    assert_string_equal(trace, "abRbRa");
    assert_null(a.point.waiter);
    assert_false(a.point.is_signalled);
    assert_false(fiber_run_ready());
    assert_int_equal(host_sets, 0);
}

static void a_signal_before_the_wait_is_kept_once(void **state)
{
    struct waiter a = {.name = 'a', .deadline_ms = FIBER_NEVER};

    wait_signal(&a.point);
    wait_signal(&a.point);
    assert_true(a.point.is_signalled);
    assert_int_equal(fiber_start(run_waiter, &a, NULL), FIBER_ENDED);
    assert_false(a.point.is_signalled);
    assert_int_equal(fiber_start(run_waiter, &a, NULL), FIBER_WAITING);
    wait_signal(&a.point);
    assert_string_equal(trace, "aRaaRa");
}

static void run_signaller(void *arg)
{
    struct waiter *waiters = arg;

    note('s');
    wait_signal(&waiters[1].point);
    wait_signal(&waiters[0].point);
    note('s');
}

static void signals_from_a_fiber_are_queued_in_order(void **state)
{
    struct waiter waiters[2];

    start_waiter(&waiters[0], 'a', FIBER_NEVER);
    start_waiter(&waiters[1], 'b', FIBER_NEVER);
    assert_int_equal(fiber_start(run_signaller, waiters, NULL), FIBER_ENDED);
    assert_string_equal(trace, "abss");
    assert_false(fiber_run_ready());
    assert_string_equal(trace, "abssRbRa");
}

static void signal_later_queues_on_the_workers_stack(void **state)
{
    struct waiter a;

    start_waiter(&a, 'a', FIBER_NEVER);
    wait_signal_later(&a.point);
    assert_string_equal(trace, "a");
    fiber_run_ready();
    assert_string_equal(trace, "aRa");
}

static void signal_first_goes_before_those_that_are_ready(void **state)
{
    struct waiter a, b, c;

    start_waiter(&a, 'a', FIBER_NEVER);
    start_waiter(&b, 'b', FIBER_NEVER);
    start_waiter(&c, 'c', FIBER_NEVER);
    wait_signal_later(&a.point);
    wait_signal_later(&b.point);
    wait_signal_first(&c.point);
    fiber_run_ready();
    assert_string_equal(trace, "abcRcRaRb");
}

static void run_yielder(void *arg)
{
    for (int i = 0; i < 3; i++) {
        note(*(char *) arg);
        assert_int_equal(fiber_yield(), WAIT_READY);
    }
}

static void yielding_fibers_take_turns_and_the_loop_too(void **state)
{
    char a = 'a';
    char b = 'b';

    fiber_start(run_yielder, &a, NULL);
    fiber_start(run_yielder, &b, NULL);
    for (int i = 0; i < 3; i++) {
        assert_false(fiber_run_ready()); /* the turn goes on without them */
        assert_true(fiber_has_yielded());
        fiber_turn();
        note('.');
    }
    assert_false(fiber_run_ready());
    assert_false(fiber_has_yielded());
    assert_string_equal(trace, "ab.ab.ab.");
}

static void run_starter(void *arg)
{
    struct fiber *self = fiber_self();
    struct fiber *child;

    note('(');
    assert_int_equal(fiber_start(run_waiter, arg, &child), FIBER_WAITING);
    assert_ptr_equal(fiber_self(), self);
    assert_ptr_not_equal(child, self);
    note(')');
}

static void a_fiber_starts_a_fiber_that_outlives_it(void **state)
{
    struct waiter a = {.name = 'a', .deadline_ms = FIBER_NEVER};

    assert_int_equal(fiber_start(run_starter, &a, NULL), FIBER_ENDED);
    assert_string_equal(trace, "(a)");
    wait_signal(&a.point);
    assert_string_equal(trace, "(a)Ra");
}

/* ---- Deadlines ---- */

static void deadlines_end_waits_in_order_of_time(void **state)
{
    struct waiter a;
    struct waiter b;
    struct waiter c;

    start_waiter(&a, 'a', 300);
    start_waiter(&b, 'b', 100);
    start_waiter(&c, 'c', 200);
    host_time_is(99);
    assert_string_equal(trace, "abc");
    host_time_is(250);
    assert_string_equal(trace, "abcTbTc");
    assert_null(b.point.waiter);
    wait_signal(&b.point); /* too late for b: kept for the next */
    assert_true(b.point.is_signalled);
    wait_signal(&a.point);
    assert_string_equal(trace, "abcTbTcRa");
    assert_int_equal(host_armed(), 0); /* taken back at the end of a */
}

static void deadline_zero_only_looks(void **state)
{
    struct waiter a;

    assert_int_equal(start_waiter(&a, 'a', 0), FIBER_ENDED);
    assert_string_equal(trace, "aTa");
    assert_null(a.point.waiter);
}

static void run_sleeper(void *arg)
{
    note("RTC"[fiber_sleep(100)]);
    note("RTC"[fiber_sleep(200)]);
}

static void sleep_ends_with_its_deadline(void **state)
{
    fiber_start(run_sleeper, NULL, NULL);
    host_time_is(100);
    assert_string_equal(trace, "T");
    host_time_is(199);
    assert_string_equal(trace, "T");
    host_time_is(200);
    assert_string_equal(trace, "TT");
}

/* Waits ten times, each time with a later deadline, then once with an earlier and once without. */
static void run_patient(void *arg)
{
    struct wait_point *point = arg;

    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(fiber_wait(point, 1000 + i), WAIT_READY);
    }
    note('1');
    assert_int_equal(fiber_wait(point, 500), WAIT_READY);
    note('2');
    assert_int_equal(fiber_wait(point, FIBER_NEVER), WAIT_READY);
    note('3');
    assert_int_equal(fiber_wait(point, 2000), WAIT_TIMED_OUT);
    note('4');
}

static void a_deadline_that_moves_later_does_not_bother_the_host(void **state)
{
    struct wait_point point = {.waiter = NULL};

    fiber_start(run_patient, &point, NULL);
    for (unsigned i = 0; i < 10; i++) {
        wait_signal(&point);
    }
    assert_string_equal(trace, "1");
    assert_int_equal(host_sets, 2); /* 1000 and, as earlier, 500 */
    wait_signal(&point);
    host_time_is(600); /* nothing: the present wait has no deadline */
    assert_string_equal(trace, "12");
    wait_signal(&point);
    host_time_is(1500);
    assert_string_equal(trace, "123");
    host_time_is(2000);
    assert_string_equal(trace, "1234");
    assert_int_equal(host_clears, 0);
}

static void a_timer_that_fires_early_is_armed_again(void **state)
{
    struct wait_point point = {.waiter = NULL};

    fiber_start(run_patient, &point, NULL);
    wait_signal(&point); /* armed for 1000, waits until 1001 */
    host_time_is(1000);
    assert_int_equal(host_sets, 2);
    assert_int_equal(host_armed(), 1);
    assert_non_null(point.waiter);
    for (unsigned i = 0; i < 10; i++) {
        wait_signal(&point);
    }
    host_time_is(1999);
    assert_string_equal(trace, "12");
    wait_signal(&point);
    host_time_is(2000);
    assert_string_equal(trace, "1234");
}

static void a_deadline_that_passes_while_the_fiber_is_queued_does_not_count(void **state)
{
    struct waiter a;

    start_waiter(&a, 'a', 100);
    wait_signal_later(&a.point);
    host_time_is(100);
    assert_string_equal(trace, "a");
    fiber_run_ready();
    assert_string_equal(trace, "aRa");
}

/* ---- The worker's own stack, the host's queue ---- */

static uintptr_t address_on_main;

static void on_main(void *arg)
{
    struct waiter *waiter = arg;
    char here;

    assert_null(fiber_self());
    /* Same stack as the test's, and not far below it. */
    assert_in_range(address_on_main - (uintptr_t) __builtin_frame_address(0), 1, 64 * 1024);
    here = 'm';
    note(here);
    wait_signal(&waiter->point); /* queued, although this is the worker's own stack */
    note(here);
    fiber_start(run_note, &here, NULL); /* a fiber may start here, too */
}

static void run_calls_main(void *arg)
{
    struct fiber *self = fiber_self();

    note('f');
    fiber_call_on_main(on_main, arg);
    assert_ptr_equal(fiber_self(), self);
    note('f');
}

static void run_nested_calls_main(void *arg)
{
    assert_int_equal(fiber_start(run_calls_main, arg, NULL), FIBER_ENDED);
}

static void a_call_on_main_runs_on_the_workers_stack(void **state)
{
    struct waiter a;

    address_on_main = (uintptr_t) __builtin_frame_address(0);
    start_waiter(&a, 'a', FIBER_NEVER);
    assert_int_equal(fiber_start(run_calls_main, &a, NULL), FIBER_ENDED);
    assert_string_equal(trace, "afmmmf");
    fiber_run_ready();
    assert_string_equal(trace, "afmmmfRa");
}

static void a_call_on_main_from_a_fiber_within_a_fiber(void **state)
{
    struct waiter a;

    address_on_main = (uintptr_t) __builtin_frame_address(0);
    start_waiter(&a, 'a', FIBER_NEVER);
    assert_int_equal(fiber_start(run_nested_calls_main, &a, NULL), FIBER_ENDED);
    assert_string_equal(trace, "afmmmf");
    fiber_run_ready();
    assert_string_equal(trace, "afmmmfRa");
}

static struct fiber *posted[4];
static unsigned posted_count;

static void post(struct fiber *fiber)
{
    posted[posted_count++] = fiber;
}

static void a_host_with_a_run_queue_gets_the_woken_fibers(void **state)
{
    struct waiter waiters[2];

    fiber_pool_destroy();
    host_pool((struct fiber_options){.max_fibers = 8, .host = {.post = post}});
    start_waiter(&waiters[0], 'a', FIBER_NEVER);
    start_waiter(&waiters[1], 'b', FIBER_NEVER);
    fiber_start(run_signaller, waiters, NULL);
    assert_false(fiber_run_ready());
    assert_int_equal(posted_count, 2);
    assert_ptr_equal(posted[0], waiters[1].fiber);
    fiber_resume(posted[0]);
    fiber_resume(posted[1]);
    assert_string_equal(trace, "abssRbRa");
}

static void a_pool_that_goes_takes_the_timers_of_waiting_fibers_along(void **state)
{
    struct waiter waiters[2];

    start_waiter(&waiters[0], 'a', 100);
    start_waiter(&waiters[1], 'b', FIBER_NEVER);
    assert_int_equal(host_armed(), 1);
    fiber_pool_destroy();
    assert_int_equal(host_armed(), 0);
    host_pool((struct fiber_options){.max_fibers = 8});
    host_time_is(100);
    assert_string_equal(trace, "ab");
}

struct sums {
    struct wait_point point;
    uint64_t sum;
};

/* Registers that a function must keep, and doubles, live through a switch. */
static void run_sums(void *arg)
{
    struct sums *sums = arg;
    uint64_t a = 1, b = 2, c = 3, d = 5, e = 7, f = 11;
    double x = 0.5, y = 0.25;

    for (int i = 0; i < 100; i++) {
        fiber_wait(&sums->point, FIBER_NEVER);
        a += b;
        b += c;
        c += d;
        d += e;
        e += f;
        f += a;
        x += y;
        y *= 0.5;
    }
    assert_true(x > 0.99 && x < 1.01);
    sums->sum = a ^ b ^ c ^ d ^ e ^ f;
}

static void registers_live_through_a_switch(void **state)
{
    struct sums in = {.sum = 0};
    uint64_t a = 1, b = 2, c = 3, d = 5, e = 7, f = 11;

    fiber_start(run_sums, &in, NULL);
    for (int i = 0; i < 100; i++) {
        a += b;
        b += c;
        c += d;
        d += e;
        e += f;
        f += a;
        wait_signal(&in.point);
    }
    assert_int_equal(in.sum, a ^ b ^ c ^ d ^ e ^ f);
}

static struct wait_point starting;

/* Starts a fiber when it is told, and ends when it is told again. */
static void run_starter_later(void *arg)
{
    fiber_wait(&starting, FIBER_NEVER);
    start_waiter(arg, 'c', FIBER_NEVER);
    fiber_wait(&starting, FIBER_NEVER);
}

static void fibers_of_former_eras_are_counted(void **state)
{
    struct waiter a, b, child;

    assert_int_equal(fiber_former_count(), 0);
    start_waiter(&a, 'a', FIBER_NEVER);
    assert_int_equal(fiber_former_count(), 0);
    fiber_era_begin();
    assert_int_equal(fiber_former_count(), 1);
    start_waiter(&b, 'b', FIBER_NEVER);
    assert_int_equal(fiber_former_count(), 1);
    wait_signal(&b.point);
    assert_int_equal(fiber_former_count(), 1);
    wait_signal(&a.point);
    assert_int_equal(fiber_former_count(), 0);

    /* What they start belongs to their era, whenever that is. */
    start_waiter(&a, 'a', FIBER_NEVER);
    assert_int_equal(fiber_start(run_starter_later, &child, NULL), FIBER_WAITING);
    fiber_era_begin();
    start_waiter(&b, 'b', FIBER_NEVER);
    fiber_era_begin();
    assert_int_equal(fiber_former_count(), 3);
    wait_signal(&starting);
    assert_int_equal(fiber_former_count(), 4);
    wait_signal(&starting); /* the starter ends, its child does not */
    assert_int_equal(fiber_former_count(), 3);
    wait_signal(&child.point);
    wait_signal(&b.point);
    assert_int_equal(fiber_former_count(), 1);
    fiber_cancel(a.fiber);
    assert_int_equal(fiber_former_count(), 1); /* it has not run yet */
    fiber_run_ready();
    assert_int_equal(fiber_former_count(), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(fibers_of_former_eras_are_counted),
        TEST(a_fiber_that_does_not_wait_ends_at_once),
        TEST(signal_on_the_workers_stack_switches_at_once),
        TEST(a_signal_before_the_wait_is_kept_once),
        TEST(signals_from_a_fiber_are_queued_in_order),
        TEST(signal_later_queues_on_the_workers_stack),
        TEST(signal_first_goes_before_those_that_are_ready),
        TEST(yielding_fibers_take_turns_and_the_loop_too),
        TEST(a_fiber_starts_a_fiber_that_outlives_it),
        TEST(deadlines_end_waits_in_order_of_time),
        TEST(deadline_zero_only_looks),
        TEST(sleep_ends_with_its_deadline),
        TEST(a_deadline_that_moves_later_does_not_bother_the_host),
        TEST(a_timer_that_fires_early_is_armed_again),
        TEST(a_deadline_that_passes_while_the_fiber_is_queued_does_not_count),
        TEST(a_call_on_main_runs_on_the_workers_stack),
        TEST(a_call_on_main_from_a_fiber_within_a_fiber),
        TEST(a_host_with_a_run_queue_gets_the_woken_fibers),
        TEST(a_pool_that_goes_takes_the_timers_of_waiting_fibers_along),
        TEST(registers_live_through_a_switch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
