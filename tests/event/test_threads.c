/* Work on other threads, which ends on the loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include "base/list.h"
#include "event/loop.h"
#include "fiber/fiber.h"

static int setup(void **state)
{
    struct loop_options options = {.log = log_main};

    return loop_init(&options) ? 0 : -1;
}

static int teardown(void **state)
{
    loop_destroy();
    return 0;
}

struct job {
    struct thread_job job;
    int number;
    pthread_t worker;
    bool is_done;
};

static int jobs_done;

static void job_work(struct thread_job *thread_job)
{
    struct job *job = container_of(thread_job, struct job, job);

    job->number *= 2;
    job->worker = pthread_self();
}

static void job_done(struct thread_job *thread_job)
{
    struct job *job = container_of(thread_job, struct job, job);

    job->is_done = true;
    jobs_done++;
}

static void jobs_run_on_threads_and_end_on_the_loop(void **state)
{
    struct thread_pool *pool = thread_pool_new(STR("default"), 4, 1000);
    static struct job jobs[200];

    jobs_done = 0;
    assert_non_null(pool);
    for (int i = 0; i < 200; i++) {
        jobs[i] = (struct job){.job = {.work = job_work, .done = job_done}, .number = i};
        assert_true(thread_pool_submit(pool, &jobs[i].job));
    }
    while (jobs_done < 200) {
        loop_turn(1000);
    }
    for (int i = 0; i < 200; i++) {
        assert_int_equal(jobs[i].number, 2 * i);
        assert_true(jobs[i].is_done);
        assert_false(pthread_equal(jobs[i].worker, pthread_self()));
    }
    thread_pool_free(pool);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void job_at_gate(struct thread_job *thread_job)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static void a_full_queue_refuses(void **state)
{
    struct thread_pool *pool = thread_pool_new(STR("small"), 1, 2);
    struct job jobs[4];
    int taken = 0;

    jobs_done = 0;
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 4; i++) {
        jobs[i] = (struct job){.job = {.work = job_at_gate, .done = job_done}};
        taken += thread_pool_submit(pool, &jobs[i].job);
    }
    /* The thread holds one at most, the queue two. */
    assert_true(taken == 2 || taken == 3);
    pthread_mutex_unlock(&gate);
    while (jobs_done < taken) {
        loop_turn(1000);
    }
    thread_pool_free(pool);
}

/* What is taken out of the queue leaves its place to others, wherever it stood; what a thread has
 * cannot be. */
static void a_job_is_withdrawn(void **state)
{
    struct thread_pool *pool = thread_pool_new(STR("small"), 1, 3);
    struct job jobs[6];
    int taken = 0;

    jobs_done = 0;
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 6; i++) {
        jobs[i] = (struct job){.job = {.work = job_at_gate, .done = job_done}};
        taken += thread_pool_submit(pool, &jobs[i].job);
    }
    assert_false(thread_pool_submit(pool, &jobs[5].job));
    /* The last, then the one before it, which is the last now. */
    assert_true(thread_pool_withdraw(pool, &jobs[taken - 1].job));
    assert_false(thread_pool_withdraw(pool, &jobs[taken - 1].job));
    assert_true(thread_pool_withdraw(pool, &jobs[taken - 2].job));
    assert_true(thread_pool_submit(pool, &jobs[taken - 2].job));
    assert_true(thread_pool_submit(pool, &jobs[taken - 1].job));
    assert_true(thread_pool_withdraw(pool, &jobs[taken - 2].job));
    pthread_mutex_unlock(&gate);
    while (jobs_done < taken - 1) {
        loop_turn(1000);
    }
    assert_false(thread_pool_withdraw(pool, &jobs[0].job));
    thread_pool_free(pool);
}

/* ---- calls of fibers ---- */

struct called {
    struct thread_pool *pool;
    int number;
    enum thread_called result;
    bool is_over; /* the fiber has returned */
    pthread_t worker;
};

static void double_number(void *arg)
{
    struct called *called = arg;

    called->number *= 2;
    called->worker = pthread_self();
}

static void call_from_fiber(void *arg)
{
    struct called *called = arg;

    called->result = thread_pool_call(called->pool, double_number, called);
    called->is_over = true;
}

static void a_fiber_waits_for_its_call(void **state)
{
    struct called called = {.pool = thread_pool_new(STR("calls"), 1, 1), .number = 5};

    assert_true(loop_host_fibers(4, 0));
    assert_int_equal(fiber_start(call_from_fiber, &called, NULL), FIBER_WAITING);
    while (!called.is_over) {
        loop_turn(1000);
    }
    assert_int_equal(called.result, THREAD_CALL_DONE);
    assert_int_equal(called.number, 10);
    assert_false(pthread_equal(called.worker, pthread_self()));
    thread_pool_free(called.pool);
    fiber_pool_destroy();
}

static void a_cancelled_call_does_not_run(void **state)
{
    struct called called = {.pool = thread_pool_new(STR("calls"), 1, 2), .number = 5};
    struct job blocker = {.job = {.work = job_at_gate, .done = job_done}};
    struct fiber *fiber;

    jobs_done = 0;
    assert_true(loop_host_fibers(4, 0));
    pthread_mutex_lock(&gate);
    assert_true(thread_pool_submit(called.pool, &blocker.job));
    assert_int_equal(fiber_start(call_from_fiber, &called, &fiber), FIBER_WAITING);
    fiber_cancel(fiber);
    while (!called.is_over) {
        loop_turn(1000);
    }
    assert_int_equal(called.result, THREAD_CALL_CANCELLED);
    pthread_mutex_unlock(&gate);
    while (jobs_done == 0) {
        loop_turn(1000);
    }
    thread_pool_free(called.pool);
    loop_turn(0); /* frees what nobody wanted */
    assert_int_equal(called.number, 5);
    fiber_pool_destroy();
}

static void a_call_is_refused_by_a_full_queue(void **state)
{
    struct called called = {.pool = thread_pool_new(STR("none"), 1, 0), .number = 5};

    assert_true(loop_host_fibers(4, 0));
    assert_int_equal(fiber_start(call_from_fiber, &called, NULL), FIBER_ENDED);
    assert_int_equal(called.result, THREAD_CALL_REFUSED);
    assert_int_equal(called.number, 5);
    thread_pool_free(called.pool);
    fiber_pool_destroy();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(jobs_run_on_threads_and_end_on_the_loop),
        TEST(a_full_queue_refuses),
        TEST(a_job_is_withdrawn),
        TEST(a_fiber_waits_for_its_call),
        TEST(a_cancelled_call_does_not_run),
        TEST(a_call_is_refused_by_a_full_queue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
