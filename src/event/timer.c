/* Timers: a heap whose keys may be earlier than the deadlines, so that moving one to later is a
   store. */
#include "event/loop.h"

#include "base/clock.h"
#include "base/heap.h"
#include "event/backend.h"

struct heap timers;

/* While timers fire, a timer that is set fires in a later turn at the earliest: timers that set
 * each other must not keep the worker from all other work. */
static uint64_t set_at_least_ms;

/* A key is a deadline and a serial number below it: of timers that are due in the same millisecond,
 * the one that was set first fires first. */
static uint64_t key_of(uint64_t deadline_ms)
{
    static uint32_t number;
    const uint64_t last_ms = UINT64_MAX >> TIMER_KEY_SHIFT;

    return (deadline_ms < last_ms ? deadline_ms : last_ms) << TIMER_KEY_SHIFT |
           (number++ & ((1u << TIMER_KEY_SHIFT) - 1));
}

void timer_set(struct timer *timer, uint64_t deadline_ms)
{
    if (deadline_ms < set_at_least_ms) {
        deadline_ms = set_at_least_ms;
    }
    timer->deadline_ms = deadline_ms;
    if (timer->node.index != HEAP_OUT) {
        if (deadline_ms >= timer->node.key >> TIMER_KEY_SHIFT) {
            return;
        }
        heap_remove(&timers, &timer->node);
    } else if (deadline_ms == NO_DEADLINE) {
        return;
    }
    timer->node.key = key_of(deadline_ms);
    heap_insert(&timers, &timer->node);
}

void timer_remove(struct timer *timer)
{
    timer->deadline_ms = NO_DEADLINE;
    if (timer->node.index != HEAP_OUT) {
        heap_remove(&timers, &timer->node);
    }
}

void timers_run_due(void)
{
    uint64_t now = clock_now.now_ms;

    set_at_least_ms = now + 1;
    while (timers.count != 0 && timers.entries[0].key >> TIMER_KEY_SHIFT <= now) {
        struct heap_node *node = timers.entries[0].node;
        struct timer *timer = container_of(node, struct timer, node);

        if (timer->deadline_ms > now && timer->deadline_ms != NO_DEADLINE) {
            node->key = key_of(timer->deadline_ms);
            heap_first_moved(&timers);
            continue;
        }
        bool is_due = timer->deadline_ms != NO_DEADLINE;
        heap_remove(&timers, node);
        if (is_due) {
            timer->deadline_ms = NO_DEADLINE;
            timer->fire(timer);
        }
    }
    set_at_least_ms = 0;
}

void timers_each(void (*visit)(const struct timer *timer, void *arg), void *arg)
{
    for (uint32_t i = 0; i < timers.count; i++) {
        const struct timer *timer = container_of(timers.entries[i].node, struct timer, node);

        if (timer->deadline_ms != NO_DEADLINE) {
            visit(timer, arg);
        }
    }
}

void timers_reset(void)
{
    for (uint32_t i = 0; i < timers.count; i++) {
        struct timer *timer = container_of(timers.entries[i].node, struct timer, node);

        timer->deadline_ms = NO_DEADLINE;
        timer->node.index = HEAP_OUT;
    }
    heap_free(&timers);
}
