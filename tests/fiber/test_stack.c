/* Stacks: reuse, limits, memory of many waiting fibers, trim, paint, kinds of guards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <unistd.h>

#include "fiber/fiber.h"
#include "stacks.h"

static size_t resident_bytes(void)
{
    unsigned long size;
    unsigned long resident;
    FILE *file = fopen("/proc/self/statm", "r");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
    fclose(file);
    return resident * (size_t) sysconf(_SC_PAGESIZE);
}

static size_t mapping_count(void)
{
    size_t count = 0;
    int c;
    FILE *file = fopen("/proc/self/maps", "r");

    assert_non_null(file);
    while ((c = getc(file)) != EOF) {
        count += c == '\n';
    }
    fclose(file);
    return count;
}

static void *stack_seen;

static void run_where(void *arg)
{
    stack_seen = fiber_self();
}

static void the_stack_used_last_is_used_next(void **state)
{
    host_pool((struct fiber_options){.max_fibers = 100});
    fiber_start(run_where, NULL, NULL);
    void *first = stack_seen;

    assert_int_equal(start_waiting(3), 3);
    assert_ptr_equal(points[0].waiter, first);
    void *second = points[1].waiter;

    wait_signal(&points[2]);
    wait_signal(&points[1]);
    fiber_start(run_where, NULL, NULL);
    assert_ptr_equal(stack_seen, second);
    wait_signal(&points[0]);
    assert_int_equal(stats_now().in_use, 0);
}

static void no_more_fibers_than_allowed(void **state)
{
    struct fiber *fiber = (struct fiber *) 1;

    host_pool((struct fiber_options){.max_fibers = 37});
    assert_int_equal(start_waiting(MANY), 37);
    assert_int_equal(stats_now().in_use, 37);
    assert_int_equal(fiber_start(run_where, NULL, &fiber), FIBER_NO_STACK);
    assert_null(fiber);
    wait_signal(&points[0]);
    assert_int_equal(fiber_start(run_where, NULL, NULL), FIBER_ENDED);
    end_waiting(37);
    assert_int_equal(stats_now().free, 37);
}

static void bad_options_are_refused(void **state)
{
    struct fiber_options small = {.stack_size = 4096};
    struct fiber_options huge = {.stack_size = SIZE_MAX};

    assert_int_equal(fiber_pool_init(&small), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(fiber_pool_init(&huge), -1);
    assert_int_equal(errno, EINVAL);
    host_pool((struct fiber_options){.max_fibers = 1});
    struct fiber_options second = {.max_fibers = 1};

    assert_int_equal(fiber_pool_init(&second), -1);
    assert_int_equal(errno, EBUSY);
}

static void a_pool_too_large_for_the_address_space_is_made_smaller(void **state)
{
    host_pool((struct fiber_options){.max_fibers = (size_t) 1 << 45, .say = say});
    assert_true(stats_now().most >= 1000);
    assert_true(stats_now().most < (size_t) 1 << 45);
    assert_non_null(strstr(said, "fewer fibers"));
    assert_int_equal(start_waiting(100), 100);
    end_waiting(100);
}

static void many_waiting_fibers_cost_a_page_each_and_few_mappings(void **state)
{
    host_pool((struct fiber_options){.max_fibers = MANY, .say = say});
    size_t memory = resident_bytes();
    size_t mappings = mapping_count();

    assert_int_equal(start_waiting(MANY), MANY);
    memory = resident_bytes() - memory;
    mappings = mapping_count() - mappings;
    print_message("%d fibers: %zu bytes each, %zu more mappings. %s\n", (int) MANY, memory / MANY,
                  mappings, said);
    if (said[0] == '\0') { /* the kernel has MADV_GUARD_INSTALL */
        assert_int_equal(stats_now().canaries, 0);
        assert_true(mappings < 100);
    }
    if (is_memory_plain()) {
        size_t pages = stats_now().canaries != 0 ? 2 : 1;

        assert_true(memory / MANY < pages * (size_t) sysconf(_SC_PAGESIZE) + 1024);
    }
    end_waiting(MANY);
    assert_int_equal(stats_now().in_use, 0);
}

static void trim_gives_back_what_was_not_needed_since(void **state)
{
    host_pool((struct fiber_options){.max_fibers = 4000});
    start_waiting(3000);
    fiber_pool_trim();
    end_waiting(3000);
    assert_in_range(stats_now().cold, 0, 15); /* prepared and never used */
    /* Since the last trim up to 3000 were in use: nothing is surplus, but what was never used. */
    size_t memory = resident_bytes();

    assert_in_range(fiber_pool_trim(), 0, 16);
    start_waiting(500);
    end_waiting(500);
    size_t trimmed = 0;

    for (int i = 0; i < 10; i++) { /* no more than 1024 a call; 500 were needed before the first */
        size_t now = fiber_pool_trim();

        assert_true(now <= 1024);
        trimmed += now;
        start_waiting(500);
        end_waiting(500);
    }
    struct fiber_pool_stats stats = stats_now();

    assert_in_range(trimmed, stats.free - 516, stats.free - 500);
    assert_int_equal(stats.cold, stats.free - 500);
    if (is_memory_plain()) {
        assert_true(memory - resident_bytes() > 2400 * (size_t) sysconf(_SC_PAGESIZE));
    }
    assert_int_equal(start_waiting(3500), 3500); /* they still work */
    end_waiting(3500);
}

static void paint_measures_the_depth_of_use(void **state)
{
    unsigned shallow = 4;
    unsigned deep = 40;

    if (!is_memory_plain()) {
        skip(); /* a sanitizer may keep frames elsewhere */
    }
    host_pool((struct fiber_options){.max_fibers = 4, .paint_stacks = true});
    fiber_start(run_dig, &shallow, NULL);
    size_t used_shallow = fiber_stack_high_water();

    assert_in_range(used_shallow, 4096, 32 * 1024);
    fiber_start(run_dig, &deep, NULL);
    assert_in_range(fiber_stack_high_water(), used_shallow + 36 * 1024, 128 * 1024);
    size_t high = fiber_stack_high_water();

    fiber_start(run_dig, &shallow, NULL);
    assert_int_equal(fiber_stack_high_water(), high);
}

static void a_canary_left_alone_is_no_trouble(void **state)
{
    unsigned depth = 8;

    host_pool((struct fiber_options){.max_fibers = 100,
                                     .guard = FIBER_GUARD_CANARY,
                                     .paint_stacks = is_memory_plain(),
                                     .say = say});
    assert_int_equal(start_waiting(50), 50);
    fiber_start(run_dig, &depth, NULL);
    end_waiting(50);
    fiber_pool_trim();
    assert_int_equal(start_waiting(50), 50);
    end_waiting(50);
    assert_true(stats_now().canaries >= 50);
    assert_int_equal(stats_now().guarded, 0);
    assert_string_equal(said, "");
}

static void mprotect_guards_stop_at_a_quarter_of_the_mappings(void **state)
{
    unsigned long limit = 65530;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "r");

    if (file != NULL) {
        assert_int_equal(fscanf(file, "%lu", &limit), 1);
        fclose(file);
    }
    size_t guards = limit / 4;

    if (guards + 100 > MANY || !is_memory_plain()) {
        skip(); /* valgrind bears fewer mappings than the kernel */
    }
    host_pool((struct fiber_options){.max_fibers = MANY,
                                     .stack_size = 16384,
                                     .guard = FIBER_GUARD_PROTECT,
                                     .say = say});
    size_t sure = guards - guards % 16; /* guards are made for a few stacks at a time */

    assert_int_equal(start_waiting(sure), sure);
    assert_string_equal(said, "");
    points += sure;
    size_t more = start_waiting(guards + 100 - sure);

    points -= sure;
    assert_int_equal(more, guards + 100 - sure);
    assert_non_null(strstr(said, "canary"));
    assert_int_equal(stats_now().guarded, guards);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_stack_used_last_is_used_next),
        TEST(no_more_fibers_than_allowed),
        TEST(bad_options_are_refused),
        TEST(a_pool_too_large_for_the_address_space_is_made_smaller),
        TEST(many_waiting_fibers_cost_a_page_each_and_few_mappings),
        TEST(trim_gives_back_what_was_not_needed_since),
        TEST(paint_measures_the_depth_of_use),
        TEST(a_canary_left_alone_is_no_trouble),
        TEST(mprotect_guards_stop_at_a_quarter_of_the_mappings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
