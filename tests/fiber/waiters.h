/* Fibers that note what happens to them in one line of letters. After cmocka.h. */
#ifndef TESTS_FIBER_WAITERS_H
#define TESTS_FIBER_WAITERS_H

#include <string.h>

#include "fiber/fiber.h"
#include "host.h"

static char trace[256]; /* what happened, a letter each, in order */

static inline void note(char letter)
{
    size_t length = strlen(trace);

    assert_true(length + 1 < sizeof(trace));
    trace[length] = letter;
    trace[length + 1] = '\0';
}

static inline int setup(void **state)
{
    trace[0] = '\0';
    host_pool((struct fiber_options){.max_fibers = 64});
    return 0;
}

static inline int teardown(void **state)
{
    struct fiber_pool_stats stats;

    fiber_pool_stats(&stats);
    fiber_pool_destroy();
    return stats.in_use == 0 && host_armed() == 0 ? 0 : -1;
}

/* A fiber that notes a letter, waits, and notes how the wait ended. */
struct waiter {
    char name;
    struct wait_point point;
    uint64_t deadline_ms;
    struct fiber *fiber;
};

static inline void run_waiter(void *arg)
{
    struct waiter *waiter = arg;

    note(waiter->name);
    note("RTC"[fiber_wait(&waiter->point, waiter->deadline_ms)]);
    note(waiter->name);
}

static inline enum fiber_started start_waiter(struct waiter *waiter, char name,
                                              uint64_t deadline_ms)
{
    *waiter = (struct waiter){.name = name, .deadline_ms = deadline_ms};
    return fiber_start(run_waiter, waiter, &waiter->fiber);
}

#endif
