/* The switch by ucontext: for other CPUs, and for tests (-DFIBER_UCONTEXT). */
#include "fiber/switch.h"

#ifdef FIBER_UCONTEXT

#include <stddef.h>
#include <ucontext.h>

/* A saved position is a ucontext_t in the frame of the function that saved it. */

/* Arguments of the switch in progress; there is at most one. */
static struct {
    bool has_ended;          /* result for the code that continues */
    void (*run)(void *);     /* for a new stack: what to run there */
    void *arg;               /* its argument */
    void (*call)(void *);    /* for fiber_switch_call: called first at the target, or NULL */
    void *call_arg;          /* its argument */
    ucontext_t *call_return; /* where to continue after that */
} passing;

/* Runs calls of fiber_switch_call after a switch to `here`, then gives the result of
 * fiber_switch_*: was it the end of a fiber? */
static bool arrive(ucontext_t *here)
{
    while (passing.call != NULL) {
        void (*call)(void *) = passing.call;
        ucontext_t *caller = passing.call_return;

        passing.call = NULL;
        call(passing.call_arg);
        swapcontext(here, caller);
    }
    return passing.has_ended;
}

static void run_new(void)
{
    passing.run(passing.arg);

    ucontext_t *target = fiber_finish();

    passing.has_ended = true;
    setcontext(target);
}

bool fiber_switch_start(void **save, void *top, void (*run)(void *), void *arg)
{
    ucontext_t here;
    ucontext_t fresh;

    getcontext(&fresh);
    fresh.uc_link = NULL;
    fresh.uc_stack.ss_size = 1024; /* only the sum of the two is used */
    fresh.uc_stack.ss_sp = (char *) top - fresh.uc_stack.ss_size;
    makecontext(&fresh, run_new, 0);
    passing.run = run;
    passing.arg = arg;
    /* cppcheck-suppress autoVariables ; this frame stays until the fiber is switched to again */
    *save = &here;
    swapcontext(&here, &fresh);
    return arrive(&here);
}

bool fiber_switch_to(void **save, void *target)
{
    ucontext_t here;

    /* cppcheck-suppress autoVariables ; this frame stays until the fiber is switched to again */
    *save = &here;
    passing.has_ended = false;
    swapcontext(&here, target);
    return arrive(&here);
}

void fiber_switch_call(void *target, void (*fn)(void *), void *arg)
{
    ucontext_t here;

    passing.call = fn;
    passing.call_arg = arg;
    passing.call_return = &here;
    swapcontext(&here, target);
}

#endif
