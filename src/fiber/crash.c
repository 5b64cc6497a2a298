/* The crash handler: on an alternate stack, reports which fiber hit its guard, then lets the
   process crash. */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fiber/fiber.h"
#include "fiber/internal.h"
#include "fiber/stack.h"

enum { ALTERNATE_SIZE = 64 * 1024 }; /* bytes, unless the system needs more */

static void (*report_crash)(const struct fiber_crash *crash);
static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
enum { CRASH_SIGNALS = sizeof(crash_signals) / sizeof(crash_signals[0]) };
/* The handlers that ours replaced: the default, or a sanitizer's. They get the signal after the
 * report. */
static struct sigaction previous[CRASH_SIGNALS];

/* Which fiber was running, and whose guard page below its stack the address is in, if it is in one:
 * a stack overflow. */
static void collect_frame(struct fiber_crash *crash, const void *address)
{
    const struct stack_pool *pool = &stack_pool;
    const struct fiber *self = fiber_running;
    uintptr_t offset = (uintptr_t) address - (uintptr_t) pool->region;

    crash->address = address;
    if (self != NULL) {
        crash->fiber = self;
        crash->fiber_index = stack_index(self);
        crash->fiber_run = (const void *) (uintptr_t) self->run;
    }
    if (pool->region == NULL || address == NULL || offset >= pool->guarded * pool->stack_size ||
        offset % pool->stack_size >= pool->guard_size) {
        return;
    }
    crash->is_guard = true;
    crash->guard_index = offset / pool->stack_size;
    crash->is_own_guard = self != NULL && crash->fiber_index == crash->guard_index;
}

static void on_crash(int number, siginfo_t *info, void *context)
{
    struct fiber_crash crash = {.signal = number};
    int saved_errno = errno;

    collect_frame(&crash, info->si_code > 0 ? info->si_addr : NULL);
    for (unsigned i = 0; i < CRASH_SIGNALS; i++) {
        if (crash_signals[i] == number) {
            sigaction(number, &previous[i], NULL);
        }
    }
    report_crash(&crash);
    errno = saved_errno;
    /* A fault happens again when the handler returns, so that the core file shows the instruction.
     * A sent signal does not. */
    if (info->si_code <= 0) {
        raise(number);
    }
}

int fiber_crash_install(void (*report)(const struct fiber_crash *crash))
{
    long wanted = sysconf(_SC_SIGSTKSZ);
    size_t size = wanted > ALTERNATE_SIZE ? (size_t) wanted : ALTERNATE_SIZE;
    void *stack =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    stack_t alternate = {.ss_sp = stack, .ss_size = size};
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};

    if (stack == MAP_FAILED) {
        return -1;
    }
    action.sa_sigaction = on_crash;
    sigemptyset(&action.sa_mask);
    report_crash = report;
    if (sigaltstack(&alternate, NULL) != 0) {
        int error = errno;

        munmap(stack, size);
        errno = error;
        return -1;
    }
    for (unsigned i = 0; i < CRASH_SIGNALS; i++) {
        if (sigaction(crash_signals[i], &action, &previous[i]) != 0) {
            return -1;
        }
    }
    return 0;
}
