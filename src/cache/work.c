/* Work on threads, as a fiber sees it: a call that returns when it is done. */
#include <stdlib.h>
#include <time.h>

#include "cache/internal.h"
#include "server/generation.h"

/* On the heap: the thread may outlive the fiber when the worker is told to end. */
struct work {
    struct thread_job job;
    void (*run)(void *arg);
    void *arg;
    struct wait_point done;
    bool is_done;
};

static void on_thread(struct thread_job *job)
{
    struct work *work = container_of(job, struct work, job);

    work->run(work->arg);
}

static void is_done(struct thread_job *job)
{
    struct work *work = container_of(job, struct work, job);

    work->is_done = true;
    wait_signal(&work->done);
}

void cache_work(void (*run)(void *arg), void *arg)
{
    struct thread_pool *pool = fiber_self() == NULL ? NULL : worker_thread_pool(STR("default"));
    struct work *work = pool == NULL ? NULL : calloc(1, sizeof(*work));

    if (work == NULL) {
        run(arg);
        return;
    }
    work->job.work = on_thread;
    work->job.done = is_done;
    work->run = run;
    work->arg = arg;
    if (!thread_pool_submit(pool, &work->job)) {
        free(work);
        run(arg);
        return;
    }
    fiber_shield_begin();
    while (!work->is_done) {
        fiber_wait(&work->done, FIBER_NEVER);
    }
    fiber_shield_end();
    free(work);
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
