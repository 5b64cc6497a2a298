/* Informs AddressSanitizer, LeakSanitizer and valgrind about stacks and switches; does nothing
 * without them. Implemented in watch_asan.c. */
#ifndef FIBER_WATCH_H
#define FIBER_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "fiber/internal.h"

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif

#if defined(FIBER_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#define FIBER_NO_ASAN __attribute__((no_sanitize("address"), noinline))
#else
#define FIBER_NO_ASAN
#endif

/* Valgrind knows stacks by their registration and needs no call at a switch. It cannot run with
 * ASan. */
#if !defined(FIBER_ASAN) && defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define FIBER_VALGRIND 1
#endif
#endif

/* A new stack: from low to low + size. */
static inline void watch_stack_new(void *low, size_t size)
{
#if defined(FIBER_ASAN)
    __lsan_register_root_region(low, size);
#elif defined(FIBER_VALGRIND)
    (void) VALGRIND_STACK_REGISTER(low, (char *) low + size);
#endif
}

/* The stack is unmapped. Valgrind's numbers of stacks are not kept: a pool exists until its process
   ends. */
static inline void watch_stack_gone(void *low, size_t size)
{
#if defined(FIBER_ASAN)
    __lsan_unregister_root_region(low, size);
    ASAN_UNPOISON_MEMORY_REGION(low, size);
#endif
}

#if defined(FIBER_ASAN)
/* Before a switch to another fiber (NULL: the worker's own stack). own gets the value for
   watch_arrive after the switch back; NULL when the fiber of the present stack ends here. */
void watch_leave(void **own, const struct fiber *to) FIBER_HIDDEN;
/* Immediately after a switch, with own from watch_leave, or NULL on a new stack. from: the fiber
   that switched here, NULL for the worker's own stack. */
void watch_arrive(void *own, const struct fiber *from) FIBER_HIDDEN;
#else
#define watch_leave(own, to) ((void) (own))
#define watch_arrive(own, from) ((void) 0)
#endif

#endif
