/* Fibers: start, wait, sleep, cancel, join. The only public header of this package.
 * Implemented in fiber.c, crash.c and stack.c. */
#ifndef FIBER_FIBER_H
#define FIBER_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A deadline that never comes. */
#define FIBER_NEVER UINT64_MAX

/* How a wait ended. */
enum wait_result {
    WAIT_READY,     /* the awaited event has happened */
    WAIT_TIMED_OUT, /* the deadline came first */
    WAIT_CANCELLED  /* the fiber was asked to return; all further waits give this as well */
};

/* The result of fiber_start. */
enum fiber_started {
    FIBER_ENDED,   /* it has run to its end already */
    FIBER_WAITING, /* it waits and continues later */
    FIBER_NO_STACK /* it did not run: too many fibers, or no memory (errno) */
};

/* A function, its argument and a stack. The object is at the top of that stack and is gone when the
   function returns, so a pointer to it must not be used after that: use a fiber_handle where the
   fiber may have ended. */
struct fiber;

/* A value that belongs to the running fiber, for the code that uses fibers: each fiber has its own,
 * NULL at its start; the loop has one as well. */
extern __thread void *fiber_word;

/* An event that a fiber waits for. Embedded in the object that signals it, which owns it and must
   not be freed while a fiber waits. At most one fiber waits on it. All zero is the initial
   state. */
struct wait_point {
    struct fiber *waiter; /* the fiber that waits here now, or NULL */
    bool is_signalled;    /* it happened while no fiber waited; the next wait returns at once and
                             clears this */
};

/* A deadline of a fiber, as the host sees it. Part of the fiber; at most one is armed per fiber. */
struct fiber_timer {
    void *host_data[4]; /* for the host only; all NULL when a fiber arms it for the first time */
};

/* How deadlines are kept. Set by src/event, since this package knows no loop and no clock. */
struct fiber_host {
    /* Arms the timer, or moves it if it is armed, to this time of the loop's monotonic clock. */
    void (*deadline_set)(struct fiber_timer *timer, uint64_t deadline_ms);
    /* Disarms an armed timer, whose memory may be freed right after. */
    void (*deadline_clear)(struct fiber_timer *timer);
    /* Optional: puts a woken fiber into the loop's run queue; the loop then calls fiber_resume
       once. NULL: woken fibers are queued here and the loop calls fiber_run_ready. */
    void (*post)(struct fiber *fiber);
    /* Optional: called when the running fiber has broken this rule and was asked to return, with
       its subject or NULL. If it is NULL, such a fiber ends the process. */
    void (*broken)(const char *rule, const void *subject);
};

/* The parent's handle for a join. Owned by the parent, valid from fiber_start_joinable until the
   child has ended (fiber_join gave WAIT_READY, or has_ended) or fiber_detach was called. */
struct fiber_handle {
    struct fiber *fiber;     /* the child until it ends, then NULL */
    struct wait_point ended; /* signalled by the child's end */
    bool has_ended;          /* the child's function has returned */
};

/* How a stack overflow is detected; also the best method that the pool may use. */
enum fiber_guard {
    FIBER_GUARD_INSTALL, /* MADV_GUARD_INSTALL: costs no mapping (Linux 6.13) */
    FIBER_GUARD_PROTECT, /* mprotect: costs two mappings a stack */
    FIBER_GUARD_CANARY   /* words that are checked at each switch: detects late, but always */
};

/* The settings of a worker for its fibers. All zero is a good choice, except for host. */
struct fiber_options {
    size_t stack_size;      /* bytes of address space per fiber, guard included; 0: the default */
    size_t max_fibers;      /* most fibers at one time; 0: 262144 */
    struct fiber_host host; /* how deadlines are kept; without it every deadline must be NEVER */
    enum fiber_guard guard; /* the best method to try; for tests */
    bool paint_stacks;      /* fill stacks with a pattern to measure their use; slow, for tests */
    /* Called for weaker guards, a smaller pool, and a broken canary (which then aborts). May be
       NULL. Must not wait. */
    void (*say)(const char *message);
};

/* Counts of the pool. */
struct fiber_pool_stats {
    size_t in_use;   /* running and waiting fibers */
    size_t free;     /* stacks that were used or prepared, and are free */
    size_t cold;     /* of the free ones, those without memory */
    size_t most;     /* fibers that may live at one time */
    size_t guarded;  /* stacks whose guard is a page that faults */
    size_t canaries; /* stacks that have only a canary */
};

/* A fatal signal, as passed to the report function of fiber_crash_install. */
struct fiber_crash {
    int signal;                /* one of those that fiber_crash_install takes */
    const void *address;       /* the accessed address; NULL if a process sent the signal */
    bool is_guard;             /* the address is in the guard of a fiber's stack */
    size_t guard_index;        /* number of that stack, from 0; meaningful with is_guard */
    bool is_own_guard;         /* that stack is the one of the running fiber: it overflowed */
    const struct fiber *fiber; /* the fiber that was running, or NULL: the worker's own stack */
    size_t fiber_index;        /* number of its stack; meaningful when fiber is not NULL */
    const void *fiber_run;     /* the function it was started with, or NULL */
};

/* ---- The pool: one per process, before any fiber and after all of them ---- */

/* Reserves address space for the stacks. Call it after fork, in the process that runs the fibers.
   Gives 0, or -1 with errno (ENOMEM: not even one stack; ENOTSUP: the process has shadow stacks,
   which the switch does not support; EINVAL; EBUSY: there is a pool already). */
int fiber_pool_init(const struct fiber_options *options);

/* Frees all stacks. Fibers that still wait are dropped: their deadlines are cleared with the host,
   their code never continues. From the worker's own stack only. Does nothing without a pool. */
void fiber_pool_destroy(void);

/* Gives the memory of stacks that were not used since the last call back to the kernel, at most
   1024 stacks; returns how many. To be called about once a second. */
size_t fiber_pool_trim(void);

/* The present counts. */
void fiber_pool_stats(struct fiber_pool_stats *stats);

/* How many more fibers may be started. */
size_t fiber_pool_left(void);

/* With paint_stacks: the most bytes of stack that a fiber has used, of those that have ended,
   without the fiber's own object; else 0. */
size_t fiber_stack_high_water(void);

/* ---- The life of a fiber ---- */

/* The common part of the two functions below: *out is unchanged, and *handle is empty, unless the
   fiber waits. */
enum fiber_started fiber_launch(void (*run)(void *), void *arg, struct fiber_handle *handle,
                                struct fiber **out);

/* Runs run(arg) on a stack of its own, at once, until it ends or first waits. out (may be NULL)
   gets the waiting fiber, or NULL. From any stack; a fiber may start fibers. */
static inline enum fiber_started fiber_start(void (*run)(void *), void *arg, struct fiber **out)
{
    if (out != NULL) {
        *out = NULL;
    }
    return fiber_launch(run, arg, NULL, out);
}

/* The same. *handle is initialised by this call, and reports the end of the fiber. */
static inline enum fiber_started fiber_start_joinable(void (*run)(void *), void *arg,
                                                      struct fiber_handle *handle)
{
    *handle = (struct fiber_handle){.has_ended = false};
    return fiber_launch(run, arg, handle, NULL);
}

/* From now on, fibers that the worker's own stack starts belong to a new era. Existing fibers, and
   those that they start, belong to former ones. */
void fiber_era_begin(void);

/* How many fibers of former eras there are: what they use must not be freed as long as there are
   any. */
size_t fiber_former_count(void);

/* Sets the object that the running fiber works on, for the host's `broken`. Its joinable children
   have it as well, until they are detached. The object must live as long as they do, or be set to
   NULL before. Does nothing on the worker's own stack. */
void fiber_set_subject(const void *subject);

/* The running fiber; NULL on the worker's own stack. */
extern struct fiber *fiber_running; /* written by this package only */
static inline struct fiber *fiber_self(void)
{
    return fiber_running;
}

/* Waits until the child has ended. WAIT_READY if it has, even if the caller is cancelled; otherwise
   the child lives on and may be joined again. From a fiber, which is the only one to join it. */
enum wait_result fiber_join(struct fiber_handle *handle, uint64_t deadline_ms);

/* Cancels the child if it has not ended, and waits, shielded and without a deadline, until it has:
   a parent calls it before it returns while the child may use its frame. From a fiber. */
void fiber_cancel_and_join(struct fiber_handle *handle);

/* The child continues without a parent, and the handle may be freed. From any stack. */
void fiber_detach(struct fiber_handle *handle);

/* Asks a fiber to return: its current wait, or its next one, gives WAIT_CANCELLED, and so do all
   further ones, except those inside a shield. Never switches: the fiber continues from the ready
   queue. A fiber that was woken already and has not run yet keeps the result of that wait. From any
   stack; a fiber may cancel itself. */
void fiber_cancel(struct fiber *fiber);

/*
 * The same for a limited time: the fiber itself ends it with fiber_interrupt_end, once for each
 * call, when it has returned to code that can continue. From any stack.
 */
void fiber_interrupt(struct fiber *fiber);
void fiber_interrupt_end(void);

/* Has the running fiber used more than an eighth of its stack? False on the worker's own stack. */
bool fiber_is_deep(void);

/* Was the running fiber asked to return? Also inside a shield. False on the worker's own stack. */
bool fiber_is_cancelled(void);

/* Between these two, waits of the running fiber ignore cancellation (to finish a write or hand a
   connection back). They nest. From a fiber. */
void fiber_shield_begin(void);
void fiber_shield_end(void);

/* ---- Waiting: from a fiber; each may let other fibers and the loop run ---- */

/* Waits until wait_signal(point). deadline_ms is a time of the loop's monotonic clock, FIBER_NEVER
   for none, 0 to check without waiting. Checks in this order: cancelled, signalled, deadline. */
enum wait_result fiber_wait(struct wait_point *point, uint64_t deadline_ms);

/* Waits until the deadline: WAIT_TIMED_OUT, or WAIT_CANCELLED. */
enum wait_result fiber_sleep(uint64_t deadline_ms);

/* Lets the loop deliver events and run the other ready fibers: WAIT_READY in the next turn, or
 * WAIT_CANCELLED. */
enum wait_result fiber_yield(void);

/*
 * Appends the running fiber to the ready queue, and continues it: it may start other fibers, whose
 * waits return here, but must not wait itself. With fiber_await_turn it waits until those that were
 * queued before it have run, or returns at once when there are none. For a host without post.
 */
void fiber_queue(void);
enum wait_result fiber_await_turn(void);

/* ---- Waking ---- */

/* Signals the event: wakes the waiting fiber, or the next one to wait returns at once. On the
   worker's own stack this switches to the fiber, which may do anything, even end and free the
   point, before the call returns; from a fiber it queues and never switches. */
void wait_signal(struct wait_point *point);

/* The same, but always queues: for callers that must not be interrupted. */
void wait_signal_later(struct wait_point *point);

/* The same, but queues before all ready fibers: for a fiber that ends and passes its result to the
 * one that waits for it. */
void wait_signal_first(struct wait_point *point);

/* Runs the fibers that were queued before this call. True if more were queued meanwhile, so that
   the loop must not sleep. From the worker's own stack, once per turn of the loop before it
   sleeps. */
bool fiber_run_ready(void);

/* Are fibers queued? Then the loop must not sleep: its work after fiber_run_ready has woken
 * some. */
extern struct fiber *fiber_first_ready; /* oldest first; written by this package only */
static inline bool fiber_has_ready(void)
{
    return fiber_first_ready != NULL;
}

/* A turn of the loop begins: fibers that have yielded are ready again. */
void fiber_turn(void);

/* Has a fiber yielded? Then the loop must not sleep. */
extern struct fiber *fiber_first_yielded; /* oldest first; written by this package only */
static inline bool fiber_has_yielded(void)
{
    return fiber_first_yielded != NULL;
}

/* Runs one fiber that host.post got. From the worker's own stack. */
void fiber_resume(struct fiber *fiber);

/* Called by the host when the time of an armed timer has come, which disarms it. Switches like
   wait_signal. The timer may be armed again during the call. */
void fiber_timer_fired(struct fiber_timer *timer);

/* ---- The worker's own stack, and crashes ---- */

/* Runs fn(arg) on the worker's own stack and returns: for libraries whose stack use is unknown. fn
   must not wait; fibers that it wakes are queued. On the worker's own stack it is a plain call. */
void fiber_call_on_main(void (*fn)(void *), void *arg);

/* Handles SIGSEGV, SIGBUS, SIGABRT, SIGFPE and SIGILL on an alternate stack: calls report (which
   must be async-signal-safe and formats the facts itself), then lets the signal have its previous
   effect. 0, or -1 with errno. Once per process; forked children inherit it. */
int fiber_crash_install(void (*report)(const struct fiber_crash *crash));

#endif
