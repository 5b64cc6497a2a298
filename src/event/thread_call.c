/* Work on threads as a call from a fiber, which returns when the work is done. */
#include <stdatomic.h>
#include <stdlib.h>

#include "event/loop.h"
#include "fiber/fiber.h"

enum call_state { CALL_QUEUED, CALL_TAKEN, CALL_UNWANTED };

/* On the heap, since it may outlive the fiber. Owned by the fiber or, once it is unwanted, by its
   message. */
struct call {
    struct thread_job job;
    struct list node; /* on all_calls */
    void (*run)(void *arg);
    void *arg;
    struct wait_point done;
    _Atomic int state; /* enum call_state */
    bool is_done;
};

/* Includes the calls of fibers that no longer wait, when a worker ends. */
static struct list all_calls = {.next = &all_calls, .prev = &all_calls};

static void call_free(struct call *call)
{
    list_remove(&call->node);
    free(call);
}

/* A thread takes the call, or the fiber abandons it: the first of them succeeds. */
static bool call_decide(struct call *call, enum call_state state)
{
    int queued = CALL_QUEUED;

    return atomic_compare_exchange_strong(&call->state, &queued, state);
}

static void call_on_thread(struct thread_job *job)
{
    struct call *call = container_of(job, struct call, job);

    if (call_decide(call, CALL_TAKEN)) {
        call->run(call->arg);
    }
}

static void call_is_done(struct thread_job *job)
{
    struct call *call = container_of(job, struct call, job);

    if (call->state == CALL_UNWANTED) {
        call_free(call);
        return;
    }
    call->is_done = true;
    wait_signal(&call->done);
}

enum thread_called thread_pool_call(struct thread_pool *pool, void (*run)(void *arg), void *arg)
{
    struct call *call = calloc(1, sizeof(*call));

    if (call == NULL) {
        return THREAD_CALL_REFUSED;
    }
    *call = (struct call){.job = {.work = call_on_thread, .done = call_is_done},
                          .run = run,
                          .arg = arg};
    if (!thread_pool_submit(pool, &call->job)) {
        free(call);
        return THREAD_CALL_REFUSED;
    }
    list_push_back(&all_calls, &call->node);
    enum wait_result result = WAIT_READY;
    while (!call->is_done && result == WAIT_READY) {
        result = fiber_wait(&call->done, FIBER_NEVER);
    }
    if (!call->is_done && thread_pool_withdraw(pool, &call->job)) {
        call_free(call); /* makes space in the queue */
        return THREAD_CALL_CANCELLED;
    }
    if (!call->is_done && call_decide(call, CALL_UNWANTED)) {
        return THREAD_CALL_CANCELLED;
    }
    fiber_shield_begin();
    while (!call->is_done) {
        fiber_wait(&call->done, FIBER_NEVER);
    }
    fiber_shield_end();
    call_free(call);
    return THREAD_CALL_DONE;
}

bool thread_calls_are_running(void)
{
    list_each(item, &all_calls) {
        const struct call *call = container_of(item, struct call, node);
        if (call->state != CALL_UNWANTED && !call->is_done) {
            return true;
        }
    }
    return false;
}
