/* Timers: a heap of keys that lag behind the deadlines, so that moving one later is a store. */
#include "event/loop.h"

#include <limits.h>

#include "base/clock.h"
#include "base/heap.h"
#include "event/backend.h"

static struct heap timers; /* keys <= deadline_ms of their timers; of this process */

void timer_set(struct timer *timer, uint64_t deadline_ms)
{
    timer->deadline_ms = deadline_ms;
    if (heap_contains(&timer->node)) {
        if (deadline_ms >= timer->node.key) {
            return;
        }
        heap_remove(&timers, &timer->node);
    } else if (deadline_ms == NO_DEADLINE) {
        return;
    }
    timer->node.key = deadline_ms;
    heap_insert(&timers, &timer->node);
}

void timer_remove(struct timer *timer)
{
    timer->deadline_ms = NO_DEADLINE;
    if (heap_contains(&timer->node)) {
        heap_remove(&timers, &timer->node);
    }
}

void timers_run_due(void)
{
    uint64_t now = clock_now.now_ms;
    struct heap_node *node;

    while ((node = heap_first(&timers)) != NULL && node->key <= now) {
        struct timer *timer = container_of(node, struct timer, node);

        if (timer->deadline_ms > now && timer->deadline_ms != NO_DEADLINE) {
            node->key = timer->deadline_ms;
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
}

int timers_next_in_ms(void)
{
    const struct heap_node *node = heap_first(&timers);

    if (node == NULL) {
        return -1;
    }
    if (node->key <= clock_now.now_ms) {
        return 0;
    }
    uint64_t in_ms = node->key - clock_now.now_ms;
    return in_ms > INT_MAX ? INT_MAX : (int) in_ms;
}

void timers_reset(void)
{
    for (uint32_t i = 0; i < timers.count; i++) {
        struct timer *timer = container_of(timers.entries[i].node, struct timer, node);

        timer->deadline_ms = NO_DEADLINE;
        heap_node_init(&timer->node);
    }
    heap_free(&timers);
}
