/* Many waiting fibers, deep ones, and what the pool says. After cmocka.h. */
#ifndef TESTS_FIBER_STACKS_H
#define TESTS_FIBER_STACKS_H

#include <stdio.h>

#include "host.h"

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define HAS_VALGRIND 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

/* Under valgrind or a sanitizer memory is not what it is. */
static inline bool is_memory_plain(void)
{
#if defined(HAS_VALGRIND)
    return !IS_SANITIZED && RUNNING_ON_VALGRIND == 0;
#else
    return !IS_SANITIZED;
#endif
}

enum { MANY = IS_SANITIZED ? 10000 : 100000 };

static struct wait_point *points; /* MANY of them */

static inline void run_wait(void *arg)
{
    fiber_wait(arg, FIBER_NEVER);
}

static inline size_t start_waiting(size_t count)
{
    size_t started = 0;

    while (started < count && fiber_start(run_wait, &points[started], NULL) == FIBER_WAITING) {
        started++;
    }
    return started;
}

static inline void end_waiting(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        wait_signal(&points[i]);
    }
}

static inline struct fiber_pool_stats stats_now(void)
{
    struct fiber_pool_stats stats;

    fiber_pool_stats(&stats);
    return stats;
}

/* What the pool said. */
static char said[512];

static inline void say(const char *message)
{
    snprintf(said, sizeof(said), "%s", message);
}

static inline int setup(void **state)
{
    said[0] = '\0';
    points = calloc(MANY, sizeof(*points));
    return points == NULL;
}

static inline int teardown(void **state)
{
    fiber_pool_destroy();
    free(points);
    return 0;
}

/* Uses about depth KB of stack; never inlined, never a loop. */
__attribute__((noinline, unused)) static unsigned dig(unsigned depth)
{
    volatile char frame[1024];

    for (size_t i = 0; i < sizeof(frame); i++) {
        frame[i] = 1;
    }
    if (depth == 0) {
        return 0;
    }
    return dig(depth - 1) + (unsigned char) frame[sizeof(frame) - 1];
}

static inline void run_dig(void *arg)
{
    assert_int_equal(dig(*(unsigned *) arg), *(unsigned *) arg);
}

#endif
