/* The switch between stacks: one interface, three implementations (x86-64, aarch64, ucontext).
 * Implemented in fiber.c and switch_ucontext.c. */
#ifndef FIBER_SWITCH_H
#define FIBER_SWITCH_H

#include <stdbool.h>

#include "fiber/internal.h"

#if !defined(FIBER_UCONTEXT) && !(defined(__x86_64__) && defined(__LP64__)) && !defined(__aarch64__)
#define FIBER_UCONTEXT 1
#endif

/* Saves the caller in *save, then calls run(arg) on the stack that ends below top (a multiple of
   16), then fiber_finish() there, and continues at its result. Gives true if that end of the fiber
   switched back here, false if fiber_switch_to did. */
bool fiber_switch_start(void **save, void *top, void (*run)(void *), void *arg) FIBER_HIDDEN;

/* Saves the caller in *save and continues at target. Gives the same as fiber_switch_start.
   Preserves the registers that a called function must preserve; floating-point modes are not
   switched. */
bool fiber_switch_to(void **save, void *target) FIBER_HIDDEN;

/* Calls fn(arg) on the stack of target, below what is saved there, and returns. */
void fiber_switch_call(void *target, void (*fn)(void *), void *arg) FIBER_HIDDEN;

/* Called by the switch when a fiber's function has returned: gives where to continue. In
   fiber.c. */
void *fiber_finish(void) FIBER_HIDDEN __attribute__((used));

#endif
