/* Work of a request that blocks, or costs much: on threads, while its fiber waits. */
#include "http/request/offload.h"
#include "http/request/request.h"

#include <stdlib.h>

#include "base/checksum.h"
#include "fiber/fiber.h"
#include "server/generation.h"

/* A job of a request, and whose share it counts in. */
struct offload_job {
    struct offload_shares *shares;
    struct offload_share *client;
    struct str pool_name;
    unsigned threads; /* of the pool */
    unsigned queue;   /* how many jobs of one client may wait */
    bool may_stall;
};

/* A request that waits for a place; on its fiber's stack. */
struct waiter {
    struct list node;
    struct wait_point point;
    const struct offload_job *job;
    bool has_place;
};

/* ---- shares ---- */

/* An IPv6 client chooses the last 64 bits of its address as it likes. */
static uint64_t client_hash(const struct request *request)
{
    struct addr client;

    request_client(request, &client);
    if (client.any.sa_family == AF_INET) {
        return keyed_hash((struct str){(const char *) &client.v4.sin_addr, 4});
    }
    if (client.any.sa_family == AF_INET6) {
        const char *bytes = (const char *) &client.v6.sin6_addr;

        return IN6_IS_ADDR_V4MAPPED(&client.v6.sin6_addr) ? keyed_hash((struct str){bytes + 12, 4})
                                                          : keyed_hash((struct str){bytes, 8});
    }
    return keyed_hash(request_client_text(request));
}

/* The shares of work for a target; made when it is first met. NULL: no memory. */
static struct offload_shares *shares_of(struct offload_shares *shares, const char *target)
{
    while (shares->target == NULL || strcmp(shares->target, target) != 0) {
        if (shares->next == NULL) {
            struct offload_shares *made = calloc(1, sizeof(*made));

            if (made == NULL || (made->target = strdup(target)) == NULL) {
                free(made);
                return NULL;
            }
            shares->next = made;
        }
        shares = shares->next;
    }
    return shares;
}

/* False: no memory. */
static bool job_init(struct offload_job *job, const struct offload_pool *pool,
                     struct request *request, const char *target)
{
    const struct thread_pool_settings *settings =
        generation_thread_pool(generation_now, pool->name);

    *job = (struct offload_job){
        .shares = target == NULL ? pool->shares : shares_of(pool->shares, target),
        .pool_name = pool->name,
        .threads = settings == NULL ? pool->threads : settings->threads,
        .queue = settings == NULL ? pool->queue : settings->max_queue,
        .may_stall = pool->may_stall,
    };
    if (job->shares == NULL) {
        return false;
    }
    if (job->shares->waiters.next == NULL) {
        list_init(&job->shares->waiters);
    }
    if (target != NULL) { /* no line of the configuration has a pool with a blank in its name */
        job->pool_name = arena_printf(&request->arena, "%.*s %s", STR_ARG(pool->name), target);
    }
    job->client = &job->shares->clients[client_hash(request) % OFFLOAD_BUCKETS];
    return true;
}

static bool may_enter(const struct offload_job *job)
{
    uint32_t inside = job->shares->inside;

    if (inside >= job->threads) {
        return false;
    }
    return !job->may_stall || job->client->inside == 0 ||
           job->client->inside < job->threads - inside;
}

static void count_inside(const struct offload_job *job, unsigned change)
{
    job->shares->inside += change;
    job->client->inside += change;
}

/* Of those that may enter the one whose client has the fewest inside, the first of them; or NULL.
 */
static struct waiter *find_next(const struct offload_shares *shares)
{
    struct waiter *next = NULL;

    list_each(item, &shares->waiters) {
        struct waiter *waiter = container_of(item, struct waiter, node);

        if (may_enter(waiter->job) &&
            (next == NULL || waiter->job->client->inside < next->job->client->inside)) {
            next = waiter;
        }
    }
    return next;
}

static void leave(const struct offload_job *job)
{
    struct waiter *next;

    count_inside(job, -1u);
    while ((next = find_next(job->shares)) != NULL) {
        list_remove(&next->node);
        next->has_place = true;
        count_inside(next->job, 1);
        wait_signal_later(&next->point);
    }
}

/* A place for one more job. MAY WAIT. */
static enum thread_called enter(const struct offload_job *job)
{
    struct waiter waiter = {.job = job};

    if (may_enter(job)) {
        count_inside(job, 1);
        return THREAD_CALL_DONE;
    }
    if (job->client->waiting >= job->queue) {
        return THREAD_CALL_REFUSED;
    }
    list_push_back(&job->shares->waiters, &waiter.node);
    job->client->waiting++;
    enum wait_result result = fiber_wait(&waiter.point, FIBER_NEVER);
    job->client->waiting--;
    if (result == WAIT_READY) {
        return THREAD_CALL_DONE;
    }
    if (waiter.has_place) {
        leave(job);
    } else {
        list_remove(&waiter.node);
    }
    return THREAD_CALL_CANCELLED;
}

/* ---- work ---- */

/* MAY WAIT. */
static enum thread_called run_job(const struct offload_job *job, void (*work)(void *arg), void *arg)
{
    struct thread_pool *threads = worker_own_thread_pool(job->pool_name, job->threads, job->queue);

    if (threads == NULL) {
        return THREAD_CALL_REFUSED;
    }
    enum thread_called called = enter(job);
    if (called != THREAD_CALL_DONE) {
        return called;
    }
    /* A place that came too late: an idle thread would take the job at once, and the end would wait
     * for it. */
    called = fiber_is_cancelled() ? THREAD_CALL_CANCELLED : thread_pool_call(threads, work, arg);
    leave(job);
    return called;
}

enum thread_called offload_run_for(const struct offload_pool *pool, struct request *request,
                                   const char *target, void (*work)(void *arg), void *arg)
{
    struct offload_job job;
    enum thread_called called =
        job_init(&job, pool, request, target) ? run_job(&job, work, arg) : THREAD_CALL_REFUSED;

    if (called == THREAD_CALL_REFUSED) {
        counters_mine->limited++;
        log_error(&request->log, 0, "too many %s (thread_pool %.*s)", pool->waiting,
                  STR_ARG(pool->name));
    }
    return called;
}

enum thread_called offload_run(const struct offload_pool *pool, struct request *request,
                               void (*work)(void *arg), void *arg)
{
    return offload_run_for(pool, request, NULL, work, arg);
}

enum handler_result offload_result(struct request *request, enum thread_called called)
{
    switch (called) {
    case THREAD_CALL_DONE:
        return HANDLER_NEXT;
    case THREAD_CALL_CANCELLED:
        return HANDLER_CLOSED;
    default:
        return request_fail(request, 503);
    }
}
