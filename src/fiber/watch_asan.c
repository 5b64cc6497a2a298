/* What AddressSanitizer needs to know at a switch. */
#include "fiber/watch.h"

#if defined(FIBER_ASAN)

#include "fiber/stack.h"

const char *__asan_default_options(void); /* called by the sanitizer's library */

/* Undefined behaviour may execute an illegal instruction (make asan): report it with its stack. */
const char *__asan_default_options(void)
{
    return "handle_sigill=1";
}

static const void *main_low; /* the worker's own stack; known after the first switch away from it */
static size_t main_size;     /* in bytes */

void watch_leave(void **own, const struct fiber *to)
{
    const void *low = main_low;
    size_t size = main_size;

    if (to != NULL) {
        low = stack_low(stack_index(to));
        size = (size_t) ((const char *) to - (const char *) low);
    }
    __sanitizer_start_switch_fiber(own, low, size);
}

void watch_arrive(void *own, const struct fiber *from)
{
    const void *low;
    size_t size;

    __sanitizer_finish_switch_fiber(own, &low, &size);
    if (from == NULL && main_low == NULL) {
        main_low = low;
        main_size = size;
    }
}

#endif
