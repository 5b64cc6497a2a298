/* What the files of this package share: the fiber object and the run state of the worker.
 * Implemented in fiber.c. */
#ifndef FIBER_INTERNAL_H
#define FIBER_INTERNAL_H

#include "fiber/fiber.h"

#define FIBER_MAGIC 0xf1be4f1bu
#define FIBER_HIDDEN __attribute__((visibility("hidden")))

enum fiber_state {
    FIBER_IS_RUNNING, /* it runs, or it has started or called something that runs */
    FIBER_IS_WAITING, /* nobody has woken it yet */
    FIBER_IS_READY    /* woken, in the ready list or with the host */
};

enum timer_state {
    TIMER_UNUSED, /* host_data has no meaning yet */
    TIMER_IDLE,   /* the host knows it, not armed */
    TIMER_ARMED   /* the host calls fiber_timer_fired at armed_ms */
};

/* Lives at the top of its stack, which grows down from it. Cache-line aligned: two lines are
   touched by a start, and by a switch. */
struct fiber {
    void *resumer_pointer; /* stack pointer of the code that switched here, to go back to */
    struct fiber *resumer; /* who that is; NULL: the worker's own stack */
    void (*run)(void *);   /* what it was started with; kept for the crash report */
    void *arg;             /* likewise */
    uint32_t magic;        /* FIBER_MAGIC from start to end */
    uint16_t shield;       /* fiber_shield_begin calls that are open */
    uint16_t interrupts;   /* fiber_interrupt calls that are not taken back */
    uint8_t state;         /* enum fiber_state */
    uint8_t result;        /* enum wait_result: what the present wait gives when it continues */
    uint8_t timer_state;   /* enum timer_state */
    bool is_cancelled;     /* asked to return */
    uint32_t era;          /* in which it, or who started it, began */
    struct fiber_handle *handle; /* the parent's, or NULL */
    const void *subject;         /* what it works on, for the host's `broken`; or NULL */
    void *stack_pointer;         /* where it continues; set while it does not run */
    struct wait_point *point;    /* where it waits; NULL while it sleeps */
    uint64_t deadline_ms;        /* of the present wait */
    uint64_t armed_ms;           /* when the timer fires, if armed: not later than deadline_ms */
    struct fiber *next_ready;    /* in the ready list */
    struct fiber_timer timer;    /* the host's */
} __attribute__((aligned(64)));

/* What runs now in this process. */
struct fiber_worker {
    uint32_t main_calls;    /* fiber_call_on_main calls that are under way */
    struct fiber_host host; /* src/event */
    uint32_t era;           /* of fibers that the worker's own stack starts */
    size_t former;          /* fibers of other eras that live */
};

extern struct fiber_worker fiber_worker FIBER_HIDDEN;

/* Says why and aborts: for breaches of this package's rules, which leave no sound way on. */
void fiber_panic(const char *message) FIBER_HIDDEN __attribute__((noreturn, cold));

static inline void require(bool condition, const char *rule)
{
    if (__builtin_expect(!condition, 0)) {
        fiber_panic(rule);
    }
}

/* Whether woken fibers may run at once: on the worker's own stack, unless a fiber borrows it. */
static inline bool may_switch(void)
{
    return fiber_running == NULL && fiber_worker.main_calls == 0;
}

/* Whether a wait says so before it looks at anything else. */
static inline bool must_return(const struct fiber *fiber)
{
    return (fiber->is_cancelled || fiber->interrupts != 0) && fiber->shield == 0;
}

#endif
