/* A host with a clock of its own, for tests: time passes only when the test says so. */
#ifndef TESTS_FIBER_HOST_H
#define TESTS_FIBER_HOST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "fiber/fiber.h"

enum { HOST_TIMERS = 64 };

static struct {
    struct fiber_timer *timer; /* armed, or NULL */
    uint64_t deadline_ms;
} host_timers[HOST_TIMERS];
static unsigned host_sets;   /* calls of deadline_set */
static unsigned host_clears; /* calls of deadline_clear */

static void host_set(struct fiber_timer *timer, uint64_t deadline_ms)
{
    uintptr_t slot =
        (uintptr_t) timer->host_data[0]; /* its number + 1; proves that it starts NULL */

    host_sets++;
    if (slot == 0) {
        while (slot < HOST_TIMERS && host_timers[slot].timer != NULL) {
            slot++;
        }
        if (slot == HOST_TIMERS) {
            abort();
        }
        timer->host_data[0] = (void *) ++slot;
    }
    if (slot > HOST_TIMERS) {
        abort();
    }
    host_timers[slot - 1].timer = timer;
    host_timers[slot - 1].deadline_ms = deadline_ms;
}

static void host_clear(struct fiber_timer *timer)
{
    uintptr_t slot = (uintptr_t) timer->host_data[0];

    host_clears++;
    if (slot == 0 || slot > HOST_TIMERS || host_timers[slot - 1].timer != timer) {
        abort();
    }
    host_timers[slot - 1].timer = NULL;
    timer->host_data[0] = NULL;
}

static inline unsigned host_armed(void)
{
    unsigned count = 0;

    for (size_t i = 0; i < HOST_TIMERS; i++) {
        count += host_timers[i].timer != NULL;
    }
    return count;
}

/* It is now_ms: fires what is due, earliest first. */
static inline void host_time_is(uint64_t now_ms)
{
    for (;;) {
        size_t first = HOST_TIMERS;

        for (size_t i = 0; i < HOST_TIMERS; i++) {
            if (host_timers[i].timer != NULL && host_timers[i].deadline_ms <= now_ms &&
                (first == HOST_TIMERS ||
                 host_timers[i].deadline_ms < host_timers[first].deadline_ms)) {
                first = i;
            }
        }
        if (first == HOST_TIMERS) {
            return;
        }
        struct fiber_timer *timer = host_timers[first].timer;

        host_timers[first].timer = NULL;
        timer->host_data[0] = NULL;
        fiber_timer_fired(timer);
    }
}

static inline void host_pool(struct fiber_options options)
{
    options.host.deadline_set = host_set;
    options.host.deadline_clear = host_clear;
    host_sets = 0;
    host_clears = 0;
    for (size_t i = 0; i < HOST_TIMERS; i++) {
        host_timers[i].timer = NULL;
    }
    if (fiber_pool_init(&options) != 0) {
        abort();
    }
}

#endif
