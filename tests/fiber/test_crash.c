/* What ends the process: overflows, faults, broken rules. Each in a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fiber/fiber.h"
#include "stacks.h"

/* ---- What kills a process, in a child ---- */

static int report_fd; /* a pipe to the test */

static void report(const struct fiber_crash *crash)
{
    if (write(report_fd, crash, sizeof(*crash)) < 0) {
        _exit(99);
    }
}

static void say_to_pipe(const char *message)
{
    if (write(report_fd, message, strlen(message)) < 0) {
        _exit(99);
    }
}

/* Runs body in a child; gives how it ended and what it wrote to report_fd. */
static int in_child(void (*body)(void), char *output, size_t capacity)
{
    int ends[2];
    int status;
    size_t length = 0;
    ssize_t got;

    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};

        setrlimit(RLIMIT_CORE, &no_core);
        for (int number = 1; number < 32; number++) { /* cmocka's handlers, and a sanitizer's */
            signal(number, SIG_DFL);
        }
        close(ends[0]);
        report_fd = ends[1];
        body();
        _exit(0);
    }
    close(ends[1]);
    memset(output, 0, capacity);
    while (length + 1 < capacity &&
           (got = read(ends[0], output + length, capacity - 1 - length)) > 0) {
        length += (size_t) got;
    }
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool was_killed_by(int status, int number)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == number;
}

static enum fiber_guard child_guard;

/* The third fiber digs until something stops it. */
static void overflow_guarded(void)
{
    unsigned without_end = 1000000;

    fiber_crash_install(report);
    host_pool((struct fiber_options){.max_fibers = 8, .guard = child_guard});
    start_waiting(2);
    fiber_start(run_dig, &without_end, NULL);
}

static void check_overflow_is_named(enum fiber_guard guard)
{
    char output[sizeof(struct fiber_crash) + 1];
    struct fiber_crash crash;

    child_guard = guard;
    int status = in_child(overflow_guarded, output, sizeof(output));

    memcpy(&crash, output, sizeof(crash));
    assert_true(was_killed_by(status, SIGSEGV));
    assert_int_equal(crash.signal, SIGSEGV);
    assert_true(crash.is_guard);
    assert_true(crash.is_own_guard);
    assert_int_equal(crash.guard_index, 2);
    assert_int_equal(crash.fiber_index, 2);
    assert_non_null(crash.fiber);
    assert_ptr_equal(crash.fiber_run, (void *) (uintptr_t) run_dig);
}

static void an_overflow_hits_the_guard_and_is_named(void **state)
{
    check_overflow_is_named(FIBER_GUARD_INSTALL);
}

static void an_overflow_hits_the_mprotect_guard_and_is_named(void **state)
{
    check_overflow_is_named(FIBER_GUARD_PROTECT);
}

static void write_to(void *arg)
{
    *(volatile char *) arg = 1;
}

static void *forbidden_page; /* made before the fork, so that the test knows it */

static void fault_elsewhere(void)
{
    fiber_crash_install(report);
    host_pool((struct fiber_options){.max_fibers = 8});
    fiber_start(write_to, forbidden_page, NULL);
}

static void fault_without_a_pool(void)
{
    fiber_crash_install(report);
    write_to(forbidden_page);
}

static void signal_sent(void)
{
    fiber_crash_install(report);
    raise(SIGBUS);
}

static void a_fault_elsewhere_is_not_called_an_overflow(void **state)
{
    char output[sizeof(struct fiber_crash) + 1];
    struct fiber_crash crash;

    forbidden_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(forbidden_page != MAP_FAILED);
    assert_true(was_killed_by(in_child(fault_elsewhere, output, sizeof(output)), SIGSEGV));
    memcpy(&crash, output, sizeof(crash));
    assert_int_equal(crash.signal, SIGSEGV);
    assert_ptr_equal(crash.address, forbidden_page);
    assert_false(crash.is_guard);
    assert_ptr_equal(crash.fiber_run, (void *) (uintptr_t) write_to);

    assert_true(was_killed_by(in_child(fault_without_a_pool, output, sizeof(output)), SIGSEGV));
    memcpy(&crash, output, sizeof(crash));
    assert_ptr_equal(crash.address, forbidden_page);
    assert_false(crash.is_guard);
    assert_null(crash.fiber);

    assert_true(was_killed_by(in_child(signal_sent, output, sizeof(output)), SIGBUS));
    memcpy(&crash, output, sizeof(crash));
    assert_int_equal(crash.signal, SIGBUS);
    assert_null(crash.address);
    munmap(forbidden_page, 4096);
}

/* Digs past the end of its stack into the neighbour's, whom nobody is, and then waits. */
static void run_overrun(void *arg)
{
    dig(*(unsigned *) arg);
    fiber_yield();
}

static void overflow_canary(void)
{
    unsigned depth = 70;

    host_pool((struct fiber_options){.max_fibers = 8,
                                     .stack_size = 64 * 1024,
                                     .guard = FIBER_GUARD_CANARY,
                                     .say = say_to_pipe});
    start_waiting(1); /* the stack below, with room enough */
    fiber_start(run_overrun, &depth, NULL);
}

static void without_guards_a_canary_stops_the_overflow_at_the_next_switch(void **state)
{
    char output[256];

    if (IS_SANITIZED) {
        skip(); /* frames are larger there: it would eat the fiber below before it waits */
    }
    assert_true(was_killed_by(in_child(overflow_canary, output, sizeof(output)), SIGABRT));
    assert_non_null(strstr(output, "fiber stack 1 has overflowed"));
}

/* ---- Breaches of the rules: without a host that wants to know they end the process with a word
 * ---- */

static void wait_on_main(void)
{
    host_pool((struct fiber_options){.max_fibers = 8, .say = say_to_pipe});
    fiber_wait(&points[0], FIBER_NEVER);
}

static void two_waiters(void)
{
    host_pool((struct fiber_options){.max_fibers = 8, .say = say_to_pipe});
    fiber_start(run_wait, &points[0], NULL);
    fiber_start(run_wait, &points[0], NULL);
}

static void call_wait(void *arg)
{
    fiber_wait(arg, FIBER_NEVER);
}

static void run_wait_on_main(void *arg)
{
    fiber_call_on_main(call_wait, arg);
}

static void wait_in_call_on_main(void)
{
    host_pool((struct fiber_options){.max_fibers = 8, .say = say_to_pipe});
    fiber_start(run_wait_on_main, &points[0], NULL);
}

static void broken_rules_are_named(void **state)
{
    char output[256];

    assert_true(was_killed_by(in_child(wait_on_main, output, sizeof(output)), SIGABRT));
    assert_non_null(strstr(output, "fiber_wait without a fiber"));
    assert_true(was_killed_by(in_child(two_waiters, output, sizeof(output)), SIGABRT));
    assert_non_null(strstr(output, "two fibers wait at one point"));
    assert_true(was_killed_by(in_child(wait_in_call_on_main, output, sizeof(output)), SIGABRT));
    assert_non_null(strstr(output, "fiber_wait without a fiber"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_overflow_hits_the_guard_and_is_named),
        TEST(an_overflow_hits_the_mprotect_guard_and_is_named),
        TEST(a_fault_elsewhere_is_not_called_an_overflow),
        TEST(without_guards_a_canary_stops_the_overflow_at_the_next_switch),
        TEST(broken_rules_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
