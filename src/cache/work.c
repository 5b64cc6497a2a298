/* Work on threads, and the clocks that threads may read. */
#include <time.h>

#include "cache/internal.h"
#include "server/generation.h"

void cache_work(void (*run)(void *arg), void *arg)
{
    struct thread_pool *pool = fiber_self() == NULL ? NULL : worker_thread_pool(STR("default"));

    if (pool == NULL) {
        run(arg);
        return;
    }
    fiber_shield_begin();
    if (thread_pool_call(pool, run, arg) != THREAD_CALL_DONE) {
        run(arg);
    }
    fiber_shield_end();
}

uint64_t cache_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

time_t cache_now_seconds(void)
{
    return time(NULL);
}
