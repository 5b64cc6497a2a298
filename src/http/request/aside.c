/* Work of a request that blocks, or costs much: on threads, while its fiber waits. */
#include "http/request/aside.h"

#include "base/checksum.h"
#include "fiber/fiber.h"
#include "server/generation.h"

/* A request that waits for a place of its client; on its fiber's stack. */
struct waiter {
    struct list link;
    struct wait_point point;
    bool has_place;
};

/* ---- shares ---- */

static struct aside_share *share_of(const struct aside_pool *pool, struct request *request)
{
    uint64_t hash = keyed_hash(request_client_text(request));
    struct aside_share *share = &pool->shares->of[hash % ASIDE_CLIENTS];

    if (share->waiters.next == NULL) {
        list_init(&share->waiters);
    }
    return share;
}

/* What a client may have: jobs inside, and requests that wait outside. */
struct most {
    unsigned inside, waiting;
};

static struct most most_of(const struct aside_pool *pool)
{
    const struct thread_pool_settings *settings =
        generation_thread_pool(generation_now, pool->name);
    unsigned threads = settings == NULL ? pool->threads : settings->threads;
    unsigned queue = settings == NULL ? pool->queue : settings->max_queue;

    return (struct most){.inside = threads < 2 ? 1 : threads / 2, .waiting = queue};
}

static void leave(struct aside_share *share)
{
    if (list_is_empty(&share->waiters)) {
        share->inside--;
        return;
    }
    struct waiter *next = container_of(share->waiters.next, struct waiter, link);
    list_remove(&next->link); /* it has our place */
    next->has_place = true;
    wait_signal_later(&next->point);
}

/* A place for one more job of this client. MAY WAIT. */
static enum thread_called enter(struct aside_share *share, struct most most)
{
    struct waiter waiter = {.has_place = false};

    if (share->inside < most.inside) {
        share->inside++;
        return THREAD_CALL_DONE;
    }
    if (share->waiting >= most.waiting) {
        return THREAD_CALL_REFUSED;
    }
    list_push_back(&share->waiters, &waiter.link);
    share->waiting++;
    enum wait_result result = fiber_wait(&waiter.point, FIBER_NEVER);
    share->waiting--;
    if (result == WAIT_READY) {
        return THREAD_CALL_DONE;
    }
    if (waiter.has_place) {
        leave(share);
    } else {
        list_remove(&waiter.link);
    }
    return THREAD_CALL_CANCELLED;
}

/* ---- work ---- */

/* MAY WAIT. */
static enum thread_called run_in_share(const struct aside_pool *pool, struct thread_pool *threads,
                                       struct request *request, void (*work)(void *arg), void *arg)
{
    struct aside_share *share = share_of(pool, request);
    enum thread_called called = enter(share, most_of(pool));

    if (called == THREAD_CALL_DONE) {
        called = thread_pool_call(threads, work, arg);
        leave(share);
    }
    return called;
}

enum thread_called aside_run(const struct aside_pool *pool, struct request *request,
                             void (*work)(void *arg), void *arg)
{
    struct thread_pool *threads = worker_own_thread_pool(pool->name, pool->threads, pool->queue);
    enum thread_called called = THREAD_CALL_REFUSED;

    if (threads != NULL) {
        called = pool->shares == NULL ? thread_pool_call(threads, work, arg)
                                      : run_in_share(pool, threads, request, work, arg);
    }
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
