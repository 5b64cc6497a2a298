/* Tests of shared memory and of locks whose owner dies. */
#include "base/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/shm.h"

struct shared {
    struct shm_lock lock;
    int counter;
    int is_locked; /* the child has the lock */
};

static void memory_is_zeroed_and_shared(void **state)
{
    char *memory = shm_map(100000);

    assert_non_null(memory);
    for (size_t i = 0; i < 100000; i++) {
        assert_int_equal(memory[i], 0);
    }
    pid_t child = fork();
    if (child == 0) {
        memory[99999] = 7;
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(memory[99999], 7);
    shm_unmap(memory, 100000);
    assert_null(shm_map(SIZE_MAX / 2));
}

static void lock_excludes_other_processes(void **state)
{
    enum { CHILDREN = 4, ROUNDS = 20000 };
    struct shared *shared = shm_map(sizeof(*shared));
    pid_t children[CHILDREN];

    shm_lock_init(&shared->lock);
    for (size_t i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            for (int round = 0; round < ROUNDS; round++) {
                shm_lock_take(&shared->lock);
                volatile int *counter = &shared->counter;
                int seen = *counter;
                *counter = seen + 1;
                shm_lock_release(&shared->lock);
            }
            _exit(0);
        }
    }
    for (size_t i = 0; i < CHILDREN; i++) {
        assert_int_equal(waitpid(children[i], NULL, 0), children[i]);
    }
    assert_int_equal(shared->counter, CHILDREN * ROUNDS);
    shm_unmap(shared, sizeof(*shared));
}

static void death_of_the_owner_is_told_once(void **state)
{
    struct shared *shared = shm_map(sizeof(*shared));
    int ends[2];
    char byte;

    shm_lock_init(&shared->lock);
    assert_false(shm_lock_take(&shared->lock));
    shm_lock_release(&shared->lock);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        shm_lock_take(&shared->lock);
        if (write(ends[1], "x", 1) == 1) {
            pause();
        }
        _exit(1);
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(shm_lock_take(&shared->lock));
    shm_lock_release(&shared->lock);
    assert_false(shm_lock_take(&shared->lock));
    shm_lock_release(&shared->lock);
    close(ends[0]);
    close(ends[1]);
    shm_unmap(shared, sizeof(*shared));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_shared),
        cmocka_unit_test(lock_excludes_other_processes),
        cmocka_unit_test(death_of_the_owner_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
