/* Shared by the files of this package: the fiber object and the run state of the worker.
 * Implemented in fiber.c. */
#ifndef FIBER_INTERNAL_H
#define FIBER_INTERNAL_H

#include "fiber/fiber.h"

#define FIBER_MAGIC 0xf1be4f1bu
#define FIBER_HIDDEN __attribute__((visibility("hidden")))

enum fiber_state {
    FIBER_IS_RUNNING, /* it runs, or it has started or called code that runs */
    FIBER_IS_WAITING, /* not woken yet */
    FIBER_IS_READY    /* woken, in the ready list or with the host */
};

enum timer_state {
    TIMER_UNUSED, /* host_data is not initialised */
    TIMER_IDLE,   /* the host knows it; not armed */
    TIMER_ARMED   /* the host calls fiber_timer_fired at armed_ms */
};

/* At the top of its stack, which grows down from it. Aligned to cache lines: a start uses the first
   line, a wait the second as well. */
struct fiber {
    void *resumer_pointer; /* stack pointer of the code that switched here, to return to */
    struct fiber *resumer; /* fiber of that code; NULL: the worker's own stack */
    void (*run)(void *);   /* its function; kept for the crash report */
    void *arg;             /* argument of run */
    uint32_t magic;        /* FIBER_MAGIC from start to end */
    uint16_t shield;       /* open fiber_shield_begin calls */
    uint16_t interrupts;   /* fiber_interrupt calls without fiber_interrupt_end */
    uint8_t state;         /* enum fiber_state */
    uint8_t result;        /* enum wait_result: what the current wait gives when it continues */
    uint8_t timer_state;   /* enum timer_state */
    bool is_cancelled;     /* asked to return */
    uint32_t era;          /* in which it began; that of the fiber that started it */
    struct fiber_handle *handle; /* the parent's, or NULL */
    const void *subject;         /* what it works on, for the host's `broken`; or NULL */
    void *stack_pointer;         /* where it continues; set while it does not run */
    struct wait_point *point;    /* where it waits; NULL while it sleeps */
    uint64_t deadline_ms;        /* of the current wait */
    uint64_t armed_ms;           /* when the timer fires, if armed: not later than deadline_ms */
    struct fiber *next_ready;    /* in the ready list */
    struct fiber_timer timer;    /* for the host */
} __attribute__((aligned(64)));

/* The run state of this process. */
struct fiber_worker {
    uint32_t main_calls;    /* fiber_call_on_main calls in progress */
    struct fiber_host host; /* set by src/event */
    uint32_t era;           /* for fibers that the worker's own stack starts */
    size_t former;          /* number of fibers of former eras */
};

extern struct fiber_worker fiber_worker FIBER_HIDDEN;

/* Reports the message and aborts: for broken rules of this package after which the process cannot
   continue safely. */
void fiber_panic(const char *message) FIBER_HIDDEN __attribute__((noreturn, cold));

static inline void require(bool condition, const char *rule)
{
    if (__builtin_expect(!condition, 0)) {
        fiber_panic(rule);
    }
}

/* May woken fibers run at once? On the worker's own stack, unless a fiber has called it by
   fiber_call_on_main. */
static inline bool may_switch(void)
{
    return fiber_running == NULL && fiber_worker.main_calls == 0;
}

/* Does a wait of the fiber give WAIT_CANCELLED before it checks anything else? */
static inline bool must_return(const struct fiber *fiber)
{
    return (fiber->is_cancelled || fiber->interrupts != 0) && fiber->shield == 0;
}

#endif
