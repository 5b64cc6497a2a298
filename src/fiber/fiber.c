/* Fibers: start, end, wait, continue, wake, cancel. */
#include "fiber/fiber.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fiber/internal.h"
#include "fiber/stack.h"
#include "fiber/switch.h"
#include "fiber/watch.h"

struct fiber_worker fiber_worker;
struct fiber *fiber_running;
struct fiber *fiber_first_ready;
static struct fiber *last_ready; /* the newest; undefined when the list is empty */
struct fiber *fiber_first_yielded;
static struct fiber *last_yielded; /* as above */

void fiber_panic(const char *message)
{
    if (stack_pool.say != NULL) {
        stack_pool.say(message);
    } else {
        fprintf(stderr, "fiber: %s\n", message);
    }
    abort();
}

static void complain(const char *rule, const struct fiber *fiber)
{
    if (fiber_worker.host.broken == NULL) {
        fiber_panic(rule);
    }
    fiber_worker.host.broken(rule, fiber == NULL ? NULL : fiber->subject);
}

/*
 * The code on the running fiber has broken a rule of this interface. The fiber is cancelled, so
 * that the code returns. Inside a shield a wait reports no cancellation, and the code would
 * continue as if the awaited event had come: there the worker panics.
 */
static __attribute__((cold, noinline)) enum wait_result give_up(const char *rule)
{
    struct fiber *self = fiber_running;

    if (self != NULL && self->shield != 0) {
        fiber_panic(rule);
    }
    complain(rule, self);
    if (self != NULL) {
        self->is_cancelled = true;
    }
    return WAIT_CANCELLED;
}

/* A shadow stack of the CPU would not follow the switch; normally the linker disables it. */
static bool has_shadow_stack(void)
{
#if defined(__x86_64__) && defined(__LP64__) && !defined(FIBER_UCONTEXT)
    unsigned long pointer = 0;

    __asm__ volatile("rdsspq %0" : "+r"(pointer)); /* a no-op without shadow stacks */
    return pointer != 0;
#else
    return false;
#endif
}

int fiber_pool_init(const struct fiber_options *options)
{
    if (has_shadow_stack()) {
        errno = ENOTSUP;
        return -1;
    }
    if (stack_pool_init(options) != 0) {
        return -1;
    }
    fiber_worker = (struct fiber_worker){.host = options->host};
    fiber_running = fiber_first_ready = fiber_first_yielded = NULL;
    return 0;
}

void fiber_pool_destroy(void)
{
    require(may_switch(), "fiber_pool_destroy on a fiber");
    for (size_t i = 0; i < stack_pool.prepared; i++) {
        struct fiber *fiber = stack_fiber(i);

        if (fiber->magic == FIBER_MAGIC && fiber->timer_state == TIMER_ARMED) {
            fiber_worker.host.deadline_clear(&fiber->timer);
        }
    }
    stack_pool_destroy();
    fiber_worker = (struct fiber_worker){.era = 0};
    fiber_running = fiber_first_ready = fiber_first_yielded = NULL;
}

/* ---- Start and end ---- */

__thread void *fiber_word;

#if defined(FIBER_ASAN)
static void run_watched(void *arg)
{
    struct fiber *fiber = arg;

    watch_arrive(NULL, fiber->resumer);
    fiber->run(fiber->arg);
}
#endif

enum fiber_started fiber_launch(void (*run)(void *), void *arg, struct fiber_handle *handle,
                                struct fiber **out)
{
    struct fiber *fiber = stack_take();

    if (likely_false(fiber == NULL)) {
        return FIBER_NO_STACK;
    }
    fiber->resumer = fiber_running;
    fiber->run = run;
    fiber->arg = arg;
    fiber->magic = FIBER_MAGIC;
    fiber->shield = 0;
    fiber->state = FIBER_IS_RUNNING;
    fiber->result = WAIT_READY;
    fiber->timer_state = TIMER_UNUSED;
    fiber->is_cancelled = false;
    fiber->interrupts = 0;
    fiber->era = fiber->resumer == NULL ? fiber_worker.era : fiber->resumer->era;
    if (likely_false(fiber->era != fiber_worker.era)) {
        fiber_worker.former++;
    }
    fiber->subject = handle == NULL || fiber->resumer == NULL ? NULL : fiber->resumer->subject;
    fiber->handle = handle;
    if (handle != NULL) {
        handle->fiber = fiber;
    }
    if (likely_false(stack_pool.has_checks)) {
        stack_prepare(fiber);
    }
    void *word = fiber_word;

    fiber_word = NULL;
    fiber_running = fiber;
#if defined(FIBER_ASAN)
    void *own;

    watch_leave(&own, fiber);
    bool has_ended = fiber_switch_start(&fiber->resumer_pointer, fiber, run_watched, fiber);
    watch_arrive(own, fiber);
#else
    bool has_ended = fiber_switch_start(&fiber->resumer_pointer, fiber, run, arg);
#endif
    fiber_word = word;
    if (likely_true(has_ended)) {
        return FIBER_ENDED;
    }
    if (out != NULL) {
        *out = fiber;
    }
    return FIBER_WAITING;
}

void *fiber_finish(void)
{
    struct fiber *fiber = fiber_running;
    struct fiber *resumer = fiber->resumer;

    if (likely_false(fiber->timer_state == TIMER_ARMED)) {
        fiber_worker.host.deadline_clear(&fiber->timer);
    }
    if (fiber->handle != NULL) {
        struct fiber_handle *handle = fiber->handle;

        handle->fiber = NULL;
        handle->has_ended = true;
        wait_signal_later(&handle->ended);
    }
    if (likely_false(stack_pool.has_checks)) {
        stack_measure(fiber);
    }
    if (likely_false(fiber->era != fiber_worker.era)) {
        fiber_worker.former--;
    }
    fiber->magic = 0;
    /* The stack is free again, and in use until the next switch. */
    stack_pool.free[stack_pool.free_count++] = fiber;
    fiber_running = resumer;
    watch_leave(NULL, resumer);
    return fiber->resumer_pointer;
}

void fiber_era_begin(void)
{
    struct fiber_pool_stats stats;

    fiber_pool_stats(&stats);
    fiber_worker.era++;
    fiber_worker.former = stats.in_use;
}

size_t fiber_former_count(void)
{
    return fiber_worker.former;
}

/* ---- Continuing ---- */

/* Switches from the worker's own stack to a waiting fiber; returns when it waits again or has
   ended. */
static void go_on(struct fiber *fiber)
{
    void *word = fiber_word;
    void *own;

    fiber->state = FIBER_IS_RUNNING;
    fiber->resumer = NULL;
    fiber_running = fiber;
    watch_leave(&own, fiber);
    fiber_switch_to(&fiber->resumer_pointer, fiber->stack_pointer);
    watch_arrive(own, fiber);
    fiber_word = word;
}

/* Appends a fiber to a queue. */
static void append(struct fiber **first, struct fiber **last, struct fiber *fiber)
{
    fiber->next_ready = NULL;
    if (*first == NULL) {
        *first = fiber;
    } else {
        (*last)->next_ready = fiber;
    }
    *last = fiber;
}

/* When a woken fiber runs. */
enum wake_turn { WAKE_AT_ONCE, WAKE_FIRST, WAKE_LAST };

static void make_ready(struct fiber *fiber, enum wake_turn turn)
{
    fiber->state = FIBER_IS_READY;
    if (fiber_worker.host.post != NULL) {
        fiber_worker.host.post(fiber);
        return;
    }
    if (turn == WAKE_FIRST && fiber_first_ready != NULL) {
        fiber->next_ready = fiber_first_ready;
        fiber_first_ready = fiber;
        return;
    }
    append(&fiber_first_ready, &last_ready, fiber);
}

void fiber_turn(void)
{
    struct fiber *fiber = fiber_first_yielded;

    fiber_first_yielded = NULL;
    while (fiber != NULL) {
        struct fiber *next = fiber->next_ready;

        append(&fiber_first_ready, &last_ready, fiber);
        fiber = next;
    }
}

/* Ends the wait of a fiber. */
static void wake(struct fiber *fiber, enum wait_result result, enum wake_turn turn)
{
    if (fiber->point != NULL) {
        fiber->point->waiter = NULL;
        fiber->point = NULL;
    }
    fiber->result = (uint8_t) result;
    if (turn == WAKE_AT_ONCE && may_switch()) {
        go_on(fiber);
    } else {
        make_ready(fiber, turn);
    }
}

static inline void signal_point(struct wait_point *point, enum wake_turn turn)
{
    struct fiber *fiber = point->waiter;

    if (fiber == NULL) {
        point->is_signalled = true;
        return;
    }
    require(fiber->magic == FIBER_MAGIC && fiber->state == FIBER_IS_WAITING &&
                fiber->point == point,
            "a wait point names a fiber that does not wait there");
    wake(fiber, WAIT_READY, turn);
}

void wait_signal(struct wait_point *point)
{
    signal_point(point, WAKE_AT_ONCE);
}

void wait_signal_later(struct wait_point *point)
{
    signal_point(point, WAKE_LAST);
}

void wait_signal_first(struct wait_point *point)
{
    signal_point(point, WAKE_FIRST);
}

void fiber_resume(struct fiber *fiber)
{
    require(may_switch(), "fiber_resume on a fiber");
    require(fiber->magic == FIBER_MAGIC && fiber->state == FIBER_IS_READY,
            "fiber_resume of a fiber that nobody woke");
    go_on(fiber);
}

bool fiber_run_ready(void)
{
    struct fiber *fiber = fiber_first_ready;
    struct fiber *last = last_ready;

    if (fiber == NULL) {
        return false;
    }
    require(may_switch(), "fiber_run_ready on a fiber");
    bool is_last;

    do {
        fiber = fiber_first_ready;
        is_last = fiber == last;
        fiber_first_ready = fiber->next_ready;
        go_on(fiber);
    } while (!is_last);
    return fiber_first_ready != NULL;
}

/* ---- Waiting ---- */

/* Arms the timer unless it fires early enough already, so that a deadline that moves later costs
   nothing. */
static void arm(struct fiber *fiber)
{
    if (fiber->timer_state == TIMER_ARMED && fiber->armed_ms <= fiber->deadline_ms) {
        return;
    }
    require(fiber_worker.host.deadline_set != NULL, "a deadline, but no host to keep it");
    if (fiber->timer_state == TIMER_UNUSED) {
        memset(&fiber->timer, 0, sizeof(fiber->timer));
    }
    fiber->timer_state = TIMER_ARMED;
    fiber->armed_ms = fiber->deadline_ms;
    fiber_worker.host.deadline_set(&fiber->timer, fiber->deadline_ms);
}

void fiber_timer_fired(struct fiber_timer *timer)
{
    struct fiber *fiber =
        (struct fiber *) (void *) ((char *) timer - offsetof(struct fiber, timer));

    require(fiber->magic == FIBER_MAGIC && fiber->timer_state == TIMER_ARMED,
            "a timer fired that is not armed");
    fiber->timer_state = TIMER_IDLE;
    if (fiber->state != FIBER_IS_WAITING || fiber->deadline_ms == FIBER_NEVER) {
        return;
    }
    if (fiber->deadline_ms > fiber->armed_ms) {
        arm(fiber);
        return;
    }
    wake(fiber, WAIT_TIMED_OUT, WAKE_AT_ONCE);
}

/* Switches away from the running fiber until it is woken. */
static enum wait_result suspend(struct fiber *fiber)
{
    struct fiber *resumer = fiber->resumer;
    void *word = fiber_word;
    void *own;

    if (likely_false(stack_pool.has_checks)) {
        stack_check(fiber);
    }
    fiber_running = resumer;
    watch_leave(&own, resumer);
    fiber_switch_to(&fiber->stack_pointer, fiber->resumer_pointer);
    watch_arrive(own, NULL);
    fiber_word = word;
    return (enum wait_result) fiber->result;
}

/* Waits at point or, if that is NULL, only for the deadline. */
static enum wait_result wait_at(struct fiber *fiber, struct wait_point *point, uint64_t deadline_ms)
{
    if (must_return(fiber)) {
        return WAIT_CANCELLED;
    }
    if (point != NULL && point->is_signalled) {
        point->is_signalled = false;
        return WAIT_READY;
    }
    if (deadline_ms == 0) {
        return WAIT_TIMED_OUT;
    }
    if (point != NULL) {
        if (likely_false(point->waiter != NULL)) {
            return give_up("two fibers wait at one point");
        }
        point->waiter = fiber;
    }
    fiber->point = point;
    fiber->deadline_ms = deadline_ms;
    fiber->state = FIBER_IS_WAITING;
    if (deadline_ms != FIBER_NEVER) {
        arm(fiber);
    }
    return suspend(fiber);
}

enum wait_result fiber_wait(struct wait_point *point, uint64_t deadline_ms)
{
    if (likely_false(fiber_running == NULL)) {
        return give_up("fiber_wait without a fiber");
    }
    return wait_at(fiber_running, point, deadline_ms);
}

enum wait_result fiber_sleep(uint64_t deadline_ms)
{
    if (likely_false(fiber_running == NULL)) {
        return give_up("fiber_sleep without a fiber");
    }
    return wait_at(fiber_running, NULL, deadline_ms);
}

enum wait_result fiber_yield(void)
{
    struct fiber *fiber = fiber_running;

    if (likely_false(fiber == NULL)) {
        return give_up("fiber_yield without a fiber");
    }
    if (must_return(fiber)) {
        return WAIT_CANCELLED;
    }
    fiber->result = WAIT_READY;
    if (fiber_worker.host.post != NULL) {
        make_ready(fiber, WAKE_LAST);
    } else {
        fiber->state = FIBER_IS_READY;
        append(&fiber_first_yielded, &last_yielded, fiber);
    }
    suspend(fiber);
    return must_return(fiber) ? WAIT_CANCELLED : WAIT_READY;
}

void fiber_queue(void)
{
    struct fiber *fiber = fiber_running;

    if (likely_false(fiber == NULL)) {
        give_up("fiber_queue without a fiber");
        return;
    }
    fiber->result = WAIT_READY;
    fiber->state = FIBER_IS_READY;
    append(&fiber_first_ready, &last_ready, fiber);
}

enum wait_result fiber_await_turn(void)
{
    struct fiber *fiber = fiber_running;

    require(fiber != NULL && fiber->state == FIBER_IS_READY,
            "fiber_await_turn without fiber_queue");
    if (fiber_first_ready == fiber) {
        fiber_first_ready = fiber->next_ready;
        fiber->state = FIBER_IS_RUNNING;
    } else {
        suspend(fiber);
    }
    return must_return(fiber) ? WAIT_CANCELLED : WAIT_READY;
}

bool fiber_is_deep(void)
{
    const char *top = (const char *) fiber_running;

    return top != NULL &&
           (size_t) (top - (const char *) __builtin_frame_address(0)) > stack_pool.stack_size / 8;
}

void fiber_set_subject(const void *subject)
{
    if (fiber_running != NULL) {
        fiber_running->subject = subject;
    }
}

/* ---- Cancel and join ---- */

static void wake_to_return(struct fiber *fiber)
{
    if (fiber->state == FIBER_IS_WAITING && fiber->shield == 0) {
        wake(fiber, WAIT_CANCELLED, WAKE_LAST);
    }
}

void fiber_cancel(struct fiber *fiber)
{
    if (likely_false(fiber->magic != FIBER_MAGIC)) {
        complain("fiber_cancel of a fiber that has ended", NULL);
        return;
    }
    fiber->is_cancelled = true;
    wake_to_return(fiber);
}

void fiber_interrupt(struct fiber *fiber)
{
    if (likely_false(fiber->magic != FIBER_MAGIC)) {
        complain("fiber_interrupt of a fiber that has ended", NULL);
        return;
    }
    fiber->interrupts++;
    wake_to_return(fiber);
}

void fiber_interrupt_end(void)
{
    if (likely_false(fiber_running == NULL || fiber_running->interrupts == 0)) {
        give_up("fiber_interrupt_end without an interrupt");
        return;
    }
    fiber_running->interrupts--;
}

bool fiber_is_cancelled(void)
{
    return fiber_running != NULL && (fiber_running->is_cancelled || fiber_running->interrupts != 0);
}

void fiber_shield_begin(void)
{
    if (likely_false(fiber_running == NULL)) {
        give_up("fiber_shield_begin without a fiber");
        return;
    }
    fiber_running->shield++;
}

void fiber_shield_end(void)
{
    struct fiber *fiber = fiber_running;

    if (likely_false(fiber == NULL || fiber->shield == 0)) {
        give_up("fiber_shield_end without a begin");
        return;
    }
    fiber->shield--;
}

enum wait_result fiber_join(struct fiber_handle *handle, uint64_t deadline_ms)
{
    if (handle->has_ended) {
        return WAIT_READY;
    }
    if (likely_false(fiber_running == NULL || handle->fiber == NULL)) {
        return give_up("fiber_join without a fiber, or without a child");
    }
    enum wait_result result = wait_at(fiber_running, &handle->ended, deadline_ms);

    return handle->has_ended ? WAIT_READY : result;
}

void fiber_cancel_and_join(struct fiber_handle *handle)
{
    if (handle->fiber != NULL) {
        fiber_cancel(handle->fiber);
        fiber_shield_begin();
        fiber_join(handle, FIBER_NEVER);
        fiber_shield_end();
    }
}

void fiber_detach(struct fiber_handle *handle)
{
    if (handle->fiber != NULL) {
        handle->fiber->handle = NULL;
        handle->fiber->subject = NULL; /* the child may outlive it */
        handle->fiber = NULL;
    }
}

/* ---- The worker's own stack ---- */

#if defined(FIBER_ASAN)
/* A call on the worker's stack, with the data that the sanitizer needs on both sides. */
struct main_call {
    void (*fn)(void *); /* function to call */
    void *arg;          /* its argument */
    struct fiber *from; /* the calling fiber */
};

static void run_main_call(void *arg)
{
    struct main_call *call = arg;

    watch_arrive(NULL, call->from);
    call->fn(call->arg);
    watch_leave(NULL, call->from);
}
#endif

void fiber_call_on_main(void (*fn)(void *), void *arg)
{
    struct fiber *fiber = fiber_running;

    if (fiber == NULL) {
        fn(arg);
        return;
    }
    const struct fiber *first = fiber;

    while (first->resumer != NULL) {
        first = first->resumer;
    }
    if (likely_false(stack_pool.has_checks)) {
        stack_check(fiber);
    }
    fiber_running = NULL;
    fiber_worker.main_calls++;
#if defined(FIBER_ASAN)
    struct main_call call = {.fn = fn, .arg = arg, .from = fiber};
    void *own;

    watch_leave(&own, NULL);
    fiber_switch_call(first->resumer_pointer, run_main_call, &call);
    watch_arrive(own, NULL);
#else
    fiber_switch_call(first->resumer_pointer, fn, arg);
#endif
    fiber_worker.main_calls--;
    fiber_running = fiber;
}
