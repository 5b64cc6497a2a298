/* The switch between stacks: one face, three backs (x86-64, aarch64, ucontext).
 * Implemented in fiber.c and switch_ucontext.c. */
#ifndef FIBER_SWITCH_H
#define FIBER_SWITCH_H

#include <stdbool.h>

#include "fiber/internal.h"

#if !defined(FIBER_UCONTEXT) && !(defined(__x86_64__) && defined(__LP64__)) && !defined(__aarch64__)
#define FIBER_UCONTEXT 1
#endif

/* Saves the caller where *save says, then calls run(arg) on the stack that ends below top (a
   multiple of 16), then fiber_finish() there, and continues where that says. Gives true if the code
   that switched back here was that end, false if it was fiber_switch_to. */
bool fiber_switch_start(void **save, void *top, void (*run)(void *), void *arg) FIBER_HIDDEN;

/* Saves the caller where *save says and continues at target. Gives the same as fiber_switch_start.
   Keeps the registers that a called function must keep; floating-point modes are not switched. */
bool fiber_switch_to(void **save, void *target) FIBER_HIDDEN;

/* Calls fn(arg) on the stack of target, below what is saved there, and comes back. */
void fiber_switch_call(void *target, void (*fn)(void *), void *arg) FIBER_HIDDEN;

/* The switch's way out of a fiber whose function has returned: gives where to go on. In fiber.c. */
void *fiber_finish(void) FIBER_HIDDEN __attribute__((used));

#endif
