/* Work on other threads, which ends on the loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include "base/list.h"
#include "event/loop.h"

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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(jobs_run_on_threads_and_end_on_the_loop),
        TEST(a_full_queue_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
