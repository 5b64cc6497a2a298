/* The worker's loop: wait, deliver events, fire timers, run fibers, then run deferred work. */
#include "event/loop.h"

#include <limits.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "event/backend.h"
#include "fiber/fiber.h"

#define EVENTS_PER_TURN 512
#define EVENTS_AT_ONCE 4 /* between two calls of an observer, and two checks for urgent work */
#define URGENT_MOST 8    /* most that may be pending: they share one write of log lines */
#define URGENT_PASSED 32 /* events and pieces of deferred work that may come before urgent work */
#define SETTLE_ROUNDS 64 /* of fibers and deferred work; then events are delivered again */

static struct {
    const struct event_backend *backend;
    struct loop_pulse *pulse;             /* or NULL */
    const struct loop_observer *observer; /* or NULL */
    struct list deferred;                 /* runs before this turn ends */
    struct list deferred_next;            /* runs in the next turn */
    struct list deferred_last;            /* runs when everything else of this turn is done */
    unsigned urgent;                      /* how many of deferred_last are urgent */
    unsigned passed; /* events and pieces of deferred work since the first of these */
    uint64_t turns;
    void (*stalled)(uint64_t took_ms);
    uint64_t stall_ms;              /* UINT64_MAX = never */
    uint64_t woken_ms, woken_ticks; /* when the wait of this turn ended; ticks 0: there was none */
    uint64_t pauses;                /* pauses so far */
    const struct loop_pause *pause; /* for the next sleep, or NULL */
    bool is_stopped;
} loop;

static void deferred_reset(struct list *head)
{
    if (head->next != NULL) {
        while (list_pop_front(head) != NULL) {
        }
    }
    list_init(head);
}

static void reset(void)
{
    deferred_reset(&loop.deferred);
    deferred_reset(&loop.deferred_next);
    deferred_reset(&loop.deferred_last);
    loop.urgent = loop.passed = 0;
    timers_reset();
}

bool loop_init(const struct loop_options *options)
{
    reset();
    signals_destroy();
    loop.backend = &epoll_backend;
    loop.pulse = options->pulse;
    loop.stalled = options->stalled;
    loop.stall_ms = options->stall_ms == 0 ? UINT64_MAX : options->stall_ms;
    loop.woken_ticks = 0;
    loop.turns = loop.pauses = 0;
    loop.pause = NULL;
    loop.observer = NULL;
    loop.is_stopped = false;
    unsigned events = options->events_per_turn == 0 ? EVENTS_PER_TURN : options->events_per_turn;
    clock_update();
    return loop.backend->init(events) && messages_init();
}

void loop_destroy(void)
{
    if (loop.backend == NULL) {
        return;
    }
    fibers_destroy();
    reset();
    signals_destroy();
    messages_destroy();
    loop.backend->destroy();
    loop.backend = NULL;
}

static void run_one(struct list *item)
{
    struct deferred *deferred = container_of(item, struct deferred, node);

    deferred->run(deferred);
}

static void run_last(void)
{
    struct list *item;

    loop.urgent = loop.passed = 0;
    while ((item = list_pop_front(&loop.deferred_last)) != NULL) {
        run_one(item);
    }
}

/* That many events or pieces of deferred work have run before the pending urgent work. */
static void urgent_passed(unsigned count)
{
    if (loop.urgent == 0) {
        return;
    }
    loop.passed += count;
    if (loop.urgent >= URGENT_MOST || loop.passed >= URGENT_PASSED) {
        run_last();
    }
}

void loop_run_urgent(void)
{
    urgent_passed(1);
}

static void run_last_on_main(void *arg)
{
    run_last();
}

void loop_finish_urgent(void)
{
    if (loop.urgent != 0) {
        fiber_call_on_main(run_last_on_main, NULL);
    }
}

static void run_deferred(void)
{
    struct list *item;

    while ((item = list_pop_front(&loop.deferred)) != NULL) {
        run_one(item);
        urgent_passed(1);
    }
}

/* Fibers and deferred work cause each other: repeat until neither has anything left to do. */
static void loop_settle(void)
{
    for (int round = 0; round < SETTLE_ROUNDS; round++) {
        if (fiber_has_ready()) {
            if (loop.urgent != 0) {
                run_last();
            }
            fiber_run_ready();
        }
        run_deferred();
        if (!fiber_has_ready()) {
            break;
        }
    }
    run_last();
}

/* How long to sleep, in milliseconds: until the first timer's key, at most timeout_ms (-1: no
 * limit). */
static int sleep_for(int timeout_ms)
{
    /* Work may have been deferred outside of a turn, or by the last deferred work of this one. */
    if (fiber_has_ready() || fiber_has_yielded() || loop.is_stopped ||
        !list_is_empty(&loop.deferred) || !list_is_empty(&loop.deferred_next) ||
        !list_is_empty(&loop.deferred_last)) {
        return 0;
    }
    if (timers.count == 0) {
        return timeout_ms;
    }
    uint64_t first_ms = timers.entries[0].key >> TIMER_KEY_SHIFT;
    uint64_t in_ms = first_ms > clock_now.now_ms ? first_ms - clock_now.now_ms : 0;
    uint64_t most_ms = timeout_ms == -1 ? INT_MAX : (uint64_t) timeout_ms;
    return (int) (in_ms < most_ms ? in_ms : most_ms);
}

void loop_pause(const struct loop_pause *pause)
{
    loop.pause = pause;
}

/* True: the wait is over, a source was ready. */
static bool pause_before_wait(const struct loop_pause *pause)
{
    struct timespec time = {.tv_nsec = (long) pause->us * 1000};

    if (pause->is_last_resort && loop.backend->wait(0)) {
        return true;
    }
    loop.pauses++;
    nanosleep(&time, NULL);
    return false;
}

static void wait_for_events(int timeout_ms)
{
    const struct loop_pause *pause = loop.pause;
    struct loop_pulse *pulse = loop.pulse;

    loop.pause = NULL;
    if (timeout_ms == 0) {
        loop.backend->wait(0);
        return;
    }
    if (pause != NULL && pause_before_wait(pause)) {
        return;
    }
    if (pulse == NULL) {
        loop.backend->wait(timeout_ms);
        return;
    }
    atomic_store_explicit(&pulse->is_sleeping, 1, memory_order_relaxed);
    loop.backend->wait(timeout_ms);
    atomic_store_explicit(&pulse->is_sleeping, 0, memory_order_relaxed);
}

void loop_observe(const struct loop_observer *observer)
{
    loop.observer = observer;
}

static void deliver(void)
{
    if (loop.observer != NULL) {
        loop.observer->begins();
    }
    while (loop.backend->deliver(EVENTS_AT_ONCE)) {
        urgent_passed(EVENTS_AT_ONCE);
        if (loop.observer != NULL) {
            loop.observer->continues();
        }
    }
}

/* The time stamp that note_stall needs; 0 if stalls are not reported. */
static inline uint64_t stall_ticks(void)
{
    return loop.stall_ms == UINT64_MAX ? 0 : clock_ticks();
}

/*
 * Reports a turn whose work took long. The clock is read once a turn, after the wait; of the time
 * between two readings, ticks of the CPU give the part that was work and not waiting.
 */
static void note_stall(uint64_t slept_ticks)
{
    uint64_t woken_ticks = clock_ticks();
    uint64_t passed_ms = clock_now.now_ms - loop.woken_ms;

    if (passed_ms >= loop.stall_ms && loop.woken_ticks != 0 && loop.woken_ticks < slept_ticks) {
        double share =
            (double) (slept_ticks - loop.woken_ticks) / (double) (woken_ticks - loop.woken_ticks);
        uint64_t took_ms = (uint64_t) ((double) passed_ms * share);
        if (took_ms >= loop.stall_ms) {
            loop.stalled(took_ms);
        }
    }
    loop.woken_ms = clock_now.now_ms;
    loop.woken_ticks = woken_ticks;
}

void loop_turn(int timeout_ms)
{
    struct loop_pulse *pulse = loop.pulse;

    timeout_ms = sleep_for(timeout_ms);
    if (loop.observer != NULL) {
        loop.observer->ends(timeout_ms != 0);
    }
    uint64_t slept_ticks = stall_ticks();
    wait_for_events(timeout_ms);
    loop.turns++;
    if (pulse != NULL) {
        uint64_t turns = atomic_load_explicit(&pulse->turns, memory_order_relaxed);
        atomic_store_explicit(&pulse->turns, turns + 1, memory_order_relaxed);
    }
    clock_update();
    if (slept_ticks != 0) {
        note_stall(slept_ticks);
    }
    deliver();
    timers_run_due();
    list_splice_back(&loop.deferred, &loop.deferred_next);
    if (fiber_has_yielded()) {
        fiber_turn();
    }
    loop_settle();
}

void loop_run(bool (*until)(void))
{
    loop.is_stopped = false;
    do {
        loop_turn(-1);
    } while (!loop.is_stopped && (until == NULL || !until()));
}

void loop_stop(void)
{
    loop.is_stopped = true;
}

uint64_t loop_turns(void)
{
    return loop.turns;
}

uint64_t loop_pauses(void)
{
    return loop.pauses;
}

void loop_defer(struct deferred *deferred)
{
    if (!deferred_is_pending(deferred)) {
        list_push_back(&loop.deferred, &deferred->node);
    }
}

void loop_defer_next(struct deferred *deferred)
{
    if (!deferred_is_pending(deferred)) {
        list_push_back(&loop.deferred_next, &deferred->node);
    }
}

void loop_defer_last(struct deferred *deferred)
{
    if (!deferred_is_pending(deferred)) {
        list_push_back(&loop.deferred_last, &deferred->node);
    }
}

void loop_defer_last_urgent(struct deferred *deferred)
{
    loop.urgent++;
    loop_defer_last(deferred);
}

/* Without a loop nothing is watched: objects of scripts outlive the loop and may still call
 * this. */
static bool watch(struct event_source *source, enum watch_kind kind)
{
    if (loop.backend == NULL || !loop.backend->watch(source, kind)) {
        return false;
    }
    source->is_registered = true;
    source->is_output_watched = kind == WATCH_BOTH;
    return true;
}

bool event_add(struct event_source *source)
{
    return source->is_output_watched || watch(source, WATCH_BOTH);
}

bool event_add_input(struct event_source *source)
{
    return source->is_registered || watch(source, WATCH_INPUT);
}

bool event_want_output(struct event_source *source)
{
    return source->is_output_watched || watch(source, WATCH_BOTH);
}

bool event_add_listener(struct event_source *source, bool is_shared)
{
    return source->is_registered ||
           watch(source, is_shared ? WATCH_SHARED_LISTENER : WATCH_LISTENER);
}

void event_remove(struct event_source *source)
{
    if (source->is_registered && loop.backend != NULL) {
        loop.backend->remove(source);
        source->is_registered = source->is_output_watched = false;
    }
}

void event_forget(struct event_source *source)
{
    if (source->is_registered && loop.backend != NULL) {
        loop.backend->forget(source);
        source->is_registered = source->is_output_watched = false;
    }
}

void event_move(struct event_source *from, struct event_source *to)
{
    to->fd = from->fd;
    to->is_registered = from->is_registered;
    to->is_output_watched = from->is_output_watched;
    if (to->is_registered) {
        loop.backend->move(to);
    }
    from->fd = -1;
    from->is_registered = from->is_output_watched = false;
}
