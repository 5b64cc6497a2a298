/* Background threads for blocking work, and messages from them to the loop. */
#include "event/loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "event/backend.h"

/* ---- messages ---- */

static struct event_source wake_source = {.fd = -1};
/* Newest first; pushed by threads, taken whole by the loop. */
static struct loop_message *_Atomic messages;

static void messages_ready(struct event_source *source, unsigned events)
{
    uint64_t count;

    /* Read the counter before the list: a message that is pushed after this is signalled again. */
    if (read(source->fd, &count, sizeof(count)) == -1 && errno != EAGAIN) {
        return;
    }
    struct loop_message *newest = atomic_exchange_explicit(&messages, NULL, memory_order_acquire);
    struct loop_message *oldest = NULL;
    while (newest != NULL) {
        struct loop_message *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct loop_message *next = oldest->next;

        oldest->run(oldest);
        oldest = next;
    }
}

bool messages_init(void)
{
    messages_destroy();
    messages = NULL; /* messages of the process that this one was forked from */
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd == -1) {
        return false;
    }
    event_source_init(&wake_source, fd, messages_ready);
    return event_add_input(&wake_source);
}

void messages_destroy(void)
{
    if (wake_source.fd != -1) {
        event_forget(&wake_source);
        close(wake_source.fd);
        wake_source.fd = -1;
    }
}

void loop_post_from_thread(struct loop_message *message)
{
    struct loop_message *newest = atomic_load_explicit(&messages, memory_order_relaxed);

    do {
        message->next = newest;
    } while (!atomic_compare_exchange_weak_explicit(&messages, &newest, message,
                                                    memory_order_release, memory_order_relaxed));
    if (newest == NULL) {
        uint64_t one = 1;

        /* This fails only when the counter is full, and then the loop is awake. */
        if (write(wake_source.fd, &one, sizeof(one)) == -1) {
            return;
        }
    }
}

/* ---- threads ---- */

struct thread_pool {
    pthread_mutex_t lock;     /* protects everything below */
    pthread_cond_t has_work;  /* or the pool is ending */
    struct thread_job *first; /* queue of jobs no thread has taken */
    struct thread_job *last;
    struct str name;    /* name in the directive `thread_pool`; owned */
    unsigned queued;    /* jobs in the queue */
    unsigned max_queue; /* limit of queued */
    unsigned max_threads;
    unsigned threads; /* started */
    unsigned idle;    /* threads that wait for work */
    bool is_ending;
    pthread_t handles[]; /* max_threads of them */
};

struct thread_pool *thread_pool_new(struct str name, unsigned threads, unsigned max_queue)
{
    struct thread_pool *pool = calloc(1, sizeof(*pool) + threads * sizeof(pthread_t));
    char *own_name = malloc(name.len + 1);

    if (pool == NULL || own_name == NULL) {
        free(pool);
        free(own_name);
        return NULL;
    }
    if (name.len != 0) {
        memcpy(own_name, name.data, name.len);
    }
    own_name[name.len] = '\0';
    pool->name = (struct str){own_name, name.len};
    pool->max_threads = threads;
    pool->max_queue = max_queue;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->has_work, NULL);
    /* cppcheck-suppress memleak ; the pool owns its name */
    return pool;
}

static void job_is_done(struct loop_message *message)
{
    struct thread_job *job = container_of(message, struct thread_job, message);

    job->done(job);
}

/* Called with the lock held. */
static void queue_remove(struct thread_pool *pool, struct thread_job *job)
{
    *(job->prev == NULL ? &pool->first : &job->prev->next) = job->next;
    *(job->next == NULL ? &pool->last : &job->next->prev) = job->prev;
    job->is_queued = false;
    pool->queued--;
}

static void *thread_main(void *arg)
{
    struct thread_pool *pool = arg;

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->first == NULL && !pool->is_ending) {
            pool->idle++;
            pthread_cond_wait(&pool->has_work, &pool->lock);
            pool->idle--;
        }
        struct thread_job *job = pool->first;
        if (job == NULL) {
            break;
        }
        queue_remove(pool, job);
        pthread_mutex_unlock(&pool->lock);
        job->work(job);
        job->message.run = job_is_done;
        loop_post_from_thread(&job->message);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Starts one more thread, with all signals blocked: they are for the loop. Called with the lock
   held. */
static bool thread_start(struct thread_pool *pool)
{
    sigset_t all;
    sigset_t before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&pool->handles[pool->threads], NULL, thread_main, pool);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        errno = error;
        return false;
    }
    pool->threads++;
    return true;
}

bool thread_pool_submit(struct thread_pool *pool, struct thread_job *job)
{
    pthread_mutex_lock(&pool->lock);
    bool fits = pool->queued < pool->max_queue;
    if (fits && pool->queued >= pool->idle && pool->threads < pool->max_threads) {
        fits = thread_start(pool) || pool->threads != 0;
    }
    if (fits) {
        job->next = NULL;
        job->prev = pool->last;
        job->is_queued = true;
        if (pool->first == NULL) {
            pool->first = job;
        } else {
            pool->last->next = job;
        }
        pool->last = job;
        pool->queued++;
        pthread_cond_signal(&pool->has_work);
    }
    pthread_mutex_unlock(&pool->lock);
    return fits;
}

bool thread_pool_withdraw(struct thread_pool *pool, struct thread_job *job)
{
    pthread_mutex_lock(&pool->lock);
    bool was_queued = job->is_queued;
    if (was_queued) {
        queue_remove(pool, job);
    }
    pthread_mutex_unlock(&pool->lock);
    return was_queued;
}

void thread_pool_free(struct thread_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->is_ending = true;
    pthread_cond_broadcast(&pool->has_work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->threads; i++) {
        pthread_join(pool->handles[i], NULL);
    }
    pthread_cond_destroy(&pool->has_work);
    pthread_mutex_destroy(&pool->lock);
    free((void *) pool->name.data);
    free(pool);
}
