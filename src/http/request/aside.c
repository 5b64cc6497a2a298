/* Work of a request that blocks, or costs much: on threads, while its fiber waits. */
#include "http/request/aside.h"

#include "server/generation.h"

enum thread_called aside_run(const struct aside_pool *pool, struct request *request,
                             void (*work)(void *arg), void *arg)
{
    struct thread_pool *threads = worker_own_thread_pool(pool->name, pool->threads, pool->queue);
    enum thread_called called =
        threads == NULL ? THREAD_CALL_REFUSED : thread_pool_call(threads, work, arg);

    if (called == THREAD_CALL_REFUSED) {
        counters_mine->limited++;
        log_error(&request->log, 0, "too many %s (thread_pool %.*s)", pool->waiting,
                  STR_ARG(pool->name));
    }
    return called;
}

enum flow aside_flow(struct request *request, enum thread_called called)
{
    switch (called) {
    case THREAD_CALL_DONE:
        return FLOW_NEXT;
    case THREAD_CALL_CANCELLED:
        return FLOW_CLOSED;
    default:
        return request_fail(request, 503);
    }
}
