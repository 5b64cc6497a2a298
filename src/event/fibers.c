/* Hosts the fibers of a worker: their deadlines are in the loop's heap, unused stacks are
 * trimmed. */
#include "event/loop.h"

#include "base/clock.h"
#include "base/log.h"
#include "event/backend.h"
#include "fiber/fiber.h"

#define TRIM_EVERY_MS 1000
#define SHARE_MS 4 /* time that a fiber may use of one turn */

_Static_assert(sizeof(struct timer) <= sizeof(struct fiber_timer), "a timer fits a fiber_timer");

static bool is_hosting;
static struct timer trim_timer;
static uint64_t turns_at_trim; /* loop_turns() when stacks were last trimmed */

static void fiber_deadline_fired(struct timer *timer)
{
    fiber_timer_fired((struct fiber_timer *) timer);
}

static void fiber_deadline_set(struct fiber_timer *fiber_timer, uint64_t deadline_ms)
{
    struct timer *timer = (struct timer *) fiber_timer->host_data;

    if (timer->fire == NULL) {
        timer_init(timer, fiber_deadline_fired);
    }
    timer_set(timer, deadline_ms);
    if (trim_timer.deadline_ms == NO_DEADLINE) {
        turns_at_trim = loop_turns();
        timer_set(&trim_timer, clock_now.now_ms + TRIM_EVERY_MS);
    }
}

static void fiber_deadline_clear(struct fiber_timer *fiber_timer)
{
    timer_remove((struct timer *) fiber_timer->host_data);
}

/*
 * Releases the memory of stacks that were not used for a second. The timer stops when the loop is
 * quiet, until a fiber waits with a deadline: fibers that never wait share one stack.
 */
static void trim(struct timer *timer)
{
    bool is_quiet = fiber_pool_trim() == 0 && loop_turns() - turns_at_trim <= 1;

    turns_at_trim = loop_turns();
    if (!is_quiet) {
        timer_set(timer, clock_now.now_ms + TRIM_EVERY_MS);
    }
}

/* The subject of a fiber is the log of the request or session that it works on. */
static void tell_broken(const char *rule, const void *subject)
{
    const struct log *log = subject != NULL ? subject : log_main;

    log_error(log, 0, "aborted because of a bug in its code: %s", rule);
}

bool loop_host_fibers(unsigned max_fibers, size_t stack_size)
{
    struct fiber_options options = {
        .stack_size = stack_size,
        .max_fibers = max_fibers,
        .host = {.deadline_set = fiber_deadline_set,
                 .deadline_clear = fiber_deadline_clear,
                 .broken = tell_broken},
    };

    if (fiber_pool_init(&options) != 0) {
        return false;
    }
    timer_init(&trim_timer, trim);
    is_hosting = true;
    return true;
}

bool loop_share(void)
{
    return clock_age_ms() < SHARE_MS || fiber_yield() != WAIT_CANCELLED;
}

void fibers_destroy(void)
{
    if (is_hosting) {
        is_hosting = false;
        fiber_pool_destroy();
    }
}
