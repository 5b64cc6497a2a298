/* Fibers: cancel, shield, join. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fiber/fiber.h"
#include "waiters.h"

static void run_sleeper(void *arg)
{
    note("RTC"[fiber_sleep(100)]);
    note("RTC"[fiber_sleep(200)]);
}

static void run_stubborn(void *arg)
{
    struct wait_point *point = arg;

    note("RTC"[fiber_wait(point, FIBER_NEVER)]);
    note("ny"[fiber_is_cancelled()]);
    note("RTC"[fiber_wait(point, FIBER_NEVER)]);
    note("RTC"[fiber_sleep(100)]);
    note("RTC"[fiber_yield()]);
    fiber_shield_begin();
    fiber_shield_begin();
    fiber_shield_end();
    note("ny"[fiber_is_cancelled()]);
    note("RTC"[fiber_wait(point, FIBER_NEVER)]);
    note("RTC"[fiber_yield()]);
    fiber_shield_end();
    note("RTC"[fiber_wait(point, FIBER_NEVER)]);
}

static void cancel_ends_the_present_wait_and_all_further_but_shielded_ones(void **state)
{
    struct wait_point point = {.waiter = NULL};
    struct fiber *fiber;

    fiber_start(run_stubborn, &point, &fiber);
    fiber_cancel(fiber);
    assert_string_equal(trace, ""); /* it only queues */
    assert_null(point.waiter);
    fiber_cancel(fiber);
    fiber_run_ready();
    assert_string_equal(trace, "CyCCCy");
    assert_ptr_equal(point.waiter, fiber); /* in the shield */
    fiber_cancel(fiber);
    assert_false(fiber_run_ready());
    assert_string_equal(trace, "CyCCCy");
    wait_signal(&point);
    assert_string_equal(trace, "CyCCCyR");
    fiber_turn();
    fiber_run_ready();
    assert_string_equal(trace, "CyCCCyRRC");
}

static void run_cancels_itself(void *arg)
{
    assert_false(fiber_is_cancelled());
    fiber_cancel(fiber_self());
    assert_true(fiber_is_cancelled());
    note("RTC"[fiber_wait(arg, FIBER_NEVER)]);
}

static void cancel_before_the_wait_counts_even_if_signalled(void **state)
{
    struct wait_point point = {.is_signalled = true};

    assert_int_equal(fiber_start(run_cancels_itself, &point, NULL), FIBER_ENDED);
    assert_string_equal(trace, "C");
    assert_true(point.is_signalled);
}

static void run_two_waits(void *arg)
{
    struct wait_point *point = arg;

    note("RTC"[fiber_wait(point, FIBER_NEVER)]);
    note("RTC"[fiber_wait(point, FIBER_NEVER)]);
}

static void what_woke_a_fiber_is_not_lost_to_a_later_cancel(void **state)
{
    struct wait_point point = {.waiter = NULL};
    struct fiber *fiber;

    fiber_start(run_two_waits, &point, &fiber);
    wait_signal_later(&point);
    fiber_cancel(fiber);
    fiber_run_ready();
    assert_string_equal(trace, "RC");
}

static void cancel_of_a_sleeper_takes_its_timer_back(void **state)
{
    struct fiber *fiber;

    fiber_start(run_sleeper, NULL, &fiber);
    assert_int_equal(host_armed(), 1);
    fiber_cancel(fiber);
    fiber_run_ready();
    assert_string_equal(trace, "CC");
    assert_int_equal(host_armed(), 0);
}

/* ---- Join ---- */

struct family {
    struct waiter child;
    struct fiber_handle handle;
    uint64_t deadline_ms;
};

static void run_parent(void *arg)
{
    struct family *family = arg;

    fiber_start_joinable(run_waiter, &family->child, &family->handle);
    note('p');
    note("RTC"[fiber_join(&family->handle, family->deadline_ms)]);
    note("ny"[family->handle.has_ended]);
    note("RTC"[fiber_join(&family->handle, 0)]);
    if (!family->handle.has_ended) {
        fiber_cancel_and_join(&family->handle);
    }
    note('p');
}

static void join_waits_for_the_childs_end(void **state)
{
    struct family family = {.child = {.name = 'c', .deadline_ms = FIBER_NEVER},
                            .deadline_ms = FIBER_NEVER};

    assert_int_equal(fiber_start(run_parent, &family, NULL), FIBER_WAITING);
    assert_string_equal(trace, "cp");
    wait_signal(&family.child.point);
    assert_string_equal(trace, "cpRc"); /* the parent is queued: its child ended on a fiber */
    fiber_run_ready();
    assert_string_equal(trace, "cpRcRyRp");
    assert_null(family.handle.fiber);
}

static void join_of_a_child_that_ended_already_is_ready(void **state)
{
    struct family family = {.child = {.name = 'c', .deadline_ms = 0}, .deadline_ms = FIBER_NEVER};

    assert_int_equal(fiber_start(run_parent, &family, NULL), FIBER_ENDED);
    assert_string_equal(trace, "cTcpRyRp");
}

static void join_times_out_and_the_child_is_cancelled(void **state)
{
    struct family family = {.child = {.name = 'c', .deadline_ms = FIBER_NEVER}, .deadline_ms = 100};

    fiber_start(run_parent, &family, NULL);
    host_time_is(100);
    assert_string_equal(trace, "cpTnT");
    while (fiber_run_ready()) {
    }
    assert_string_equal(trace, "cpTnTCcp");
}

static void a_cancelled_parent_still_sees_its_child_out(void **state)
{
    struct family family = {.child = {.name = 'c', .deadline_ms = FIBER_NEVER},
                            .deadline_ms = FIBER_NEVER};
    struct fiber *parent;

    fiber_start(run_parent, &family, &parent);
    fiber_cancel(parent);
    while (fiber_run_ready()) {
    }
    assert_string_equal(trace, "cpCnCCcp");
}

static void run_detacher(void *arg)
{
    struct fiber_handle handle;

    assert_int_equal(fiber_start_joinable(run_waiter, arg, &handle), FIBER_WAITING);
    fiber_detach(&handle);
    note('d');
}

static void a_detached_child_goes_on_alone(void **state)
{
    struct waiter a = {.name = 'a', .deadline_ms = FIBER_NEVER};

    fiber_start(run_detacher, &a, NULL);
    wait_signal(&a.point);
    assert_string_equal(trace, "adRa");
    assert_false(fiber_run_ready());
}

/* ---- broken rules, where the host wants to know ---- */

static const char *told_rule;
static const void *told_subject;

static void tell(const char *rule, const void *subject)
{
    told_rule = rule;
    told_subject = subject;
}

static void run_subject(void *arg)
{
    struct waiter *waiter = arg;

    fiber_set_subject(waiter);
    run_waiter(waiter);
    note("RTC"[fiber_sleep(0)]);
}

static void who_breaks_a_rule_is_asked_to_return(void **state)
{
    struct waiter first = {.name = 'a', .deadline_ms = FIBER_NEVER};

    fiber_pool_destroy();
    host_pool((struct fiber_options){.max_fibers = 8, .host.broken = tell});
    fiber_start(run_subject, &first, NULL);
    assert_int_equal(fiber_start(run_subject, &first, NULL), FIBER_ENDED);
    assert_string_equal(told_rule, "two fibers wait at one point");
    assert_ptr_equal(told_subject, &first);
    assert_string_equal(trace, "aaCaC");
    wait_signal(&first.point); /* the first waits as it did */
    assert_string_equal(trace, "aaCaCRaT");
    assert_int_equal(fiber_wait(&first.point, FIBER_NEVER), WAIT_CANCELLED);
    assert_string_equal(told_rule, "fiber_wait without a fiber");
    assert_null(told_subject);
}

static void run_interrupted(void *arg)
{
    note("RTC"[fiber_wait(arg, FIBER_NEVER)]);
    note("ny"[fiber_is_cancelled()]);
    fiber_interrupt_end();
    note("ny"[fiber_is_cancelled()]);
    note("RTC"[fiber_wait(arg, FIBER_NEVER)]);
}

static void an_interrupt_is_taken_back_by_the_fiber_itself(void **state)
{
    struct wait_point point = {.waiter = NULL};
    struct fiber *fiber;

    fiber_start(run_interrupted, &point, &fiber);
    fiber_interrupt(fiber);
    fiber_run_ready();
    assert_string_equal(trace, "Cyn");
    wait_signal(&point);
    assert_string_equal(trace, "CynR");
}

static void run_last(void *arg)
{
    fiber_queue();
    note(*(const char *) arg);
    fiber_await_turn();
    note(*(const char *) arg);
}

static void run_first(void *arg)
{
    struct fiber_handle child;

    fiber_queue();
    fiber_start_joinable(run_last, "c", &child);
    note(*(const char *) arg);
    fiber_await_turn();
    note(*(const char *) arg);
    fiber_join(&child, FIBER_NEVER);
}

static void who_stands_in_the_queue_goes_on_in_its_order(void **state)
{
    fiber_start(run_first, "p", NULL);
    assert_string_equal(trace, "cpp"); /* the parent stood first */
    fiber_run_ready();
    assert_string_equal(trace, "cppc");
    fiber_run_ready();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(cancel_ends_the_present_wait_and_all_further_but_shielded_ones),
        TEST(cancel_before_the_wait_counts_even_if_signalled),
        TEST(what_woke_a_fiber_is_not_lost_to_a_later_cancel),
        TEST(cancel_of_a_sleeper_takes_its_timer_back),
        TEST(join_waits_for_the_childs_end),
        TEST(join_of_a_child_that_ended_already_is_ready),
        TEST(join_times_out_and_the_child_is_cancelled),
        TEST(a_cancelled_parent_still_sees_its_child_out),
        TEST(a_detached_child_goes_on_alone),
        TEST(who_breaks_a_rule_is_asked_to_return),
        TEST(an_interrupt_is_taken_back_by_the_fiber_itself),
        TEST(who_stands_in_the_queue_goes_on_in_its_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
