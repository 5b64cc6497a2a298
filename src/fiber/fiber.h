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
    WAIT_READY,     /* what was waited for has happened */
    WAIT_TIMED_OUT, /* the deadline came first */
    WAIT_CANCELLED  /* somebody wants this fiber to return; so does every further wait say */
};

/* How fiber_start went. */
enum fiber_started {
    FIBER_ENDED,   /* it ran to its end already */
    FIBER_WAITING, /* it waits for something and continues later */
    FIBER_NO_STACK /* it did not run: as many fibers as allowed exist, or no memory (errno) */
};

/* A function, its argument and a stack. Lives at the top of that stack and is gone when the
   function returns, so a pointer to it must not be used after that: keep a fiber_handle where in
   doubt. */
struct fiber;

/* A value of the running fiber, for the code that it works for: each has its own, NULL when it
 * starts. The loop has one as well. */
extern __thread void *fiber_word;

/* Something a fiber waits for. Embedded in the thing that will happen. At most one fiber waits on
   one. Owned by the struct that embeds it, which must not be freed while a fiber waits. All zero is
   right. */
struct wait_point {
    struct fiber *waiter; /* the fiber that waits here now, or NULL */
    bool is_signalled; /* happened while nobody waited; the next wait returns at once and clears */
};

/* A deadline of a fiber, as the host sees it. Part of the fiber; at most one is armed per fiber. */
struct fiber_timer {
    void *host_data[4]; /* for the host alone; all NULL when a fiber arms it for the first time */
};

/* Handed down by src/event: how deadlines are kept. This package knows no loop and no clock. */
struct fiber_host {
    /* Arm the timer, or move it if armed, to this time of the loop's monotonic clock. */
    void (*deadline_set)(struct fiber_timer *timer, uint64_t deadline_ms);
    /* Disarm an armed timer; its memory may be gone right after. */
    void (*deadline_clear)(struct fiber_timer *timer);
    /* Optional: put a woken fiber into the loop's run queue; the loop then calls fiber_resume once.
       NULL: woken fibers gather here and the loop calls fiber_run_ready. */
    void (*post)(struct fiber *fiber);
    /* Optional: called when the running fiber has broken this rule and was asked to return, with
       its subject or NULL. Without it such a fiber ends the process. */
    void (*broken)(const char *rule, const void *subject);
};

/* The child's end of a join. Owned by the parent, valid from fiber_start_joinable until the child
   has ended (fiber_join said WAIT_READY, or has_ended) or fiber_detach was called. */
struct fiber_handle {
    struct fiber *fiber;     /* the child while it lives, else NULL */
    struct wait_point ended; /* signalled by the child's end */
    bool has_ended;          /* the child's function has returned */
};

/* How overflow of a stack is noticed; also the best kind that the pool may use. */
enum fiber_guard {
    FIBER_GUARD_INSTALL, /* MADV_GUARD_INSTALL: costs no mapping (Linux 6.13) */
    FIBER_GUARD_PROTECT, /* mprotect: costs two mappings a stack */
    FIBER_GUARD_CANARY   /* words checked at each switch; noticed late, never silently */
};

/* What a worker decides about its fibers. All zero but for host is a good choice. */
struct fiber_options {
    size_t stack_size;      /* bytes of address space per fiber, guard included; 0: the default */
    size_t max_fibers;      /* most fibers at one time; 0: 262144 */
    struct fiber_host host; /* how deadlines are kept; without it every deadline must be NEVER */
    enum fiber_guard guard; /* do not even try a better one; for tests */
    bool paint_stacks;      /* fill stacks with a pattern to measure their use; slow, for tests */
    /* Called for weaker guards, a smaller pool, and a broken canary (which then aborts). May be
       NULL. Must not wait. */
    void (*say)(const char *message);
};

/* Counts of the pool. */
struct fiber_pool_stats {
    size_t in_use;   /* fibers that live now */
    size_t free;     /* stacks that were used or prepared and are free */
    size_t cold;     /* of the free ones: those without memory */
    size_t most;     /* fibers that may live at one time */
    size_t guarded;  /* stacks whose guard is a page that faults */
    size_t canaries; /* stacks that have a canary only */
};

/* A fatal signal, as passed to the report function of fiber_crash_install. */
struct fiber_crash {
    int signal;                /* one of those that fiber_crash_install takes */
    const void *address;       /* what was touched; NULL if the signal was sent by a process */
    bool is_guard;             /* the address lies in the guard of a fiber's stack */
    size_t guard_index;        /* number of that stack, from 0; meaningful with is_guard */
    bool is_own_guard;         /* that stack is the one of the running fiber: it overflowed */
    const struct fiber *fiber; /* the fiber that was running, or NULL: the worker's own stack */
    size_t fiber_index;        /* number of its stack; meaningful when fiber is not NULL */
    const void *fiber_run;     /* the function it was started with, or NULL */
};

/* ---- The pool: one per process, before any fiber and after all of them ---- */

/* Reserves address space for the stacks. Call after fork, in the process that runs the fibers.
   Gives 0, or -1 with errno (ENOMEM: not even one stack; ENOTSUP: the process has shadow stacks,
   which the switch does not keep; EINVAL; EBUSY: there is a pool already). */
int fiber_pool_init(const struct fiber_options *options);

/* Gives all stacks back. Fibers that still wait are dropped where they stand: their deadlines are
   cleared with the host, nothing of theirs runs again. From the worker's own stack only. Harmless
   without a pool. */
void fiber_pool_destroy(void);

/* Gives the memory of stacks back to the kernel that were not needed since the last call, 1024 at
   most; returns how many. Meant to be called about once a second. */
size_t fiber_pool_trim(void);

/* Counts as of now. */
void fiber_pool_stats(struct fiber_pool_stats *stats);

/* How many fibers more may be started. */
size_t fiber_pool_left(void);

/* With paint_stacks: the most bytes of stack that a fiber which has ended used, without the fiber's
   own object; else 0. */
size_t fiber_stack_high_water(void);

/* ---- The life of a fiber ---- */

/* What the two below do: *out is left alone, and *handle is empty, unless the fiber waits. */
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

/* The same, and *handle (set by this call, whatever it held) tells of its end. */
static inline enum fiber_started fiber_start_joinable(void (*run)(void *), void *arg,
                                                      struct fiber_handle *handle)
{
    *handle = (struct fiber_handle){.has_ended = false};
    return fiber_launch(run, arg, handle, NULL);
}

/* From now on the worker's own stack starts fibers of a new era. Those that live are of former
   ones, and so is what they start. */
void fiber_era_begin(void);

/* How many fibers of former eras live: while there are any, what they use must stay. */
size_t fiber_former_count(void);

/* What the running fiber works on, for the host's `broken`; its joinable children have it, too,
   until they are detached. Must live as long as they do, or be set to NULL before. On the worker's
   own stack: nothing. */
void fiber_set_subject(const void *subject);

/* The running fiber; NULL on the worker's own stack. */
extern struct fiber *fiber_running; /* of this package to write */
static inline struct fiber *fiber_self(void)
{
    return fiber_running;
}

/* Waits until the child has ended. WAIT_READY if it has, even if the caller is cancelled; otherwise
   the child lives on and may be joined again. From a fiber, which is the only one to join it. */
enum wait_result fiber_join(struct fiber_handle *handle, uint64_t deadline_ms);

/* Cancels the child if it lives and waits, shielded and without a deadline, until it has ended:
   what a parent does before it returns while the child may use its frame. From a fiber. */
void fiber_cancel_and_join(struct fiber_handle *handle);

/* The child continues alone, the handle may go. From any stack. */
void fiber_detach(struct fiber_handle *handle);

/* Asks a fiber to return: the wait that it is in, or its next, gives WAIT_CANCELLED, and so do all
   further ones, but for those inside a shield. Never switches: the fiber continues from the ready
   queue. A fiber that was woken already and has not run yet keeps what it was woken with.
   From any stack; a fiber may cancel itself. */
void fiber_cancel(struct fiber *fiber);

/*
 * The same for a while: the fiber itself takes it back with fiber_interrupt_end, once for each
 * call, when it has returned to where it can go on. From any stack.
 */
void fiber_interrupt(struct fiber *fiber);
void fiber_interrupt_end(void);

/* Has the running fiber used more than an eighth of its stack? False on the worker's own. */
bool fiber_is_deep(void);

/* Whether the running fiber was asked to return, inside a shield too. False on the worker's stack.
 */
bool fiber_is_cancelled(void);

/* Between these two, waits of the running fiber take no notice of being cancelled (to finish a
   write or hand a connection back). They nest. From a fiber. */
void fiber_shield_begin(void);
void fiber_shield_end(void);

/* ---- Waiting: from a fiber; each may let other fibers and the loop run ---- */

/* Waits until wait_signal(point). deadline_ms is a time of the loop's monotonic clock, FIBER_NEVER
   for none, 0 to only look. Looks in this order: cancelled, signalled, deadline. */
enum wait_result fiber_wait(struct wait_point *point, uint64_t deadline_ms);

/* Waits until the deadline: WAIT_TIMED_OUT, or WAIT_CANCELLED. */
enum wait_result fiber_sleep(uint64_t deadline_ms);

/* Lets events and the other ready fibers have a turn of the loop: WAIT_READY in the next one, or
 * WAIT_CANCELLED. */
enum wait_result fiber_yield(void);

/*
 * The running fiber takes a place at the end of the ready queue, and runs on: it may start others,
 * whose waits come back here, but not wait itself. With fiber_await_turn it continues after those
 * that were queued before it: at once when there is none. For a host without post.
 */
void fiber_queue(void);
enum wait_result fiber_await_turn(void);

/* ---- Waking ---- */

/* It happened: wakes the fiber that waits, or the next one to wait returns at once. On the worker's
   own stack this switches to the fiber, which may do anything, end and free the point included,
   before the call returns; from a fiber it queues and never switches. */
void wait_signal(struct wait_point *point);

/* The same, but always queues: for callers in the middle of something. */
void wait_signal_later(struct wait_point *point);

/* The same, but before all that are ready: for a fiber that ends and hands its result to the one
 * that waits for it. */
void wait_signal_first(struct wait_point *point);

/* Runs the fibers that were queued before this call. True if there are more by now, so that the
   loop must not sleep. From the worker's own stack, once per turn of the loop before it sleeps. */
bool fiber_run_ready(void);

/* Are fibers queued? Then the loop must not sleep: what it did since fiber_run_ready has woken
 * some. */
extern struct fiber *fiber_first_ready; /* oldest first; of this package to write */
static inline bool fiber_has_ready(void)
{
    return fiber_first_ready != NULL;
}

/* A turn of the loop begins: those that have yielded are ready again. */
void fiber_turn(void);

/* Has a fiber yielded? Then the loop must not sleep. */
extern struct fiber *fiber_first_yielded; /* oldest first; of this package to write */
static inline bool fiber_has_yielded(void)
{
    return fiber_first_yielded != NULL;
}

/* Runs one fiber that was given to host.post. From the worker's own stack. */
void fiber_resume(struct fiber *fiber);

/* The host says that an armed timer's time has come; it is disarmed by that. Switches like
   wait_signal. It may be armed again during the call. */
void fiber_timer_fired(struct fiber_timer *timer);

/* ---- The worker's own stack, and crashes ---- */

/* Runs fn(arg) on the worker's own stack and comes back: for libraries of unknown stack depth. fn
   must not wait; what it wakes is queued. On the worker's own stack it is a plain call. */
void fiber_call_on_main(void (*fn)(void *), void *arg);

/* Takes SIGSEGV, SIGBUS, SIGABRT, SIGFPE and SIGILL on an alternate stack, calls report (which must
   be async-signal-safe and is given facts, no text), then lets the signal do what it would have
   done before. 0, or -1 with errno. Once per process; forked children inherit it. */
int fiber_crash_install(void (*report)(const struct fiber_crash *crash));

#endif
