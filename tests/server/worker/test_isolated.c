/* A child that does one thing with the rights of workers. */
#include "base/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/isolated.h"

#define NOBODY 65534

/* What the child says, in memory that both have. */
static struct {
    int32_t pid;
    uid_t prepared, ran;
} * seen;

static struct core_settings core = {.user = NOBODY,
                                    .group = NOBODY,
                                    .user_name = STR_INIT("nobody")};
static struct generation generation = {.core = &core};

static bool prepare(void *arg)
{
    seen->prepared = geteuid();
    return arg != prepare;
}

static bool run(void *arg)
{
    seen->pid = getpid();
    seen->ran = geteuid();
    return arg != run;
}

static bool crash(void *arg)
{
    signal(SIGABRT, SIG_DFL);
    abort();
}

static bool hang(void *arg)
{
    while (arg != hang) {
        pause();
    }
    return true;
}

static bool call(bool (*what)(void *arg), void *arg, unsigned limit_ms)
{
    const struct isolated_work work = {STR("test process"), prepare, what, arg, limit_ms};

    seen->pid = 0;
    return isolated_run(&generation, &work);
}

static void runs_with_the_rights_of_workers(void **state)
{
    assert_true(call(run, NULL, 60000));
    assert_true(seen->pid != 0 && seen->pid != getpid());
    assert_int_equal(seen->prepared, geteuid());
    assert_int_equal(seen->ran, geteuid() == 0 ? NOBODY : geteuid());
}

static void says_how_it_went(void **state)
{
    assert_false(call(run, prepare, 60000));
    assert_int_equal(seen->pid, 0);
    assert_false(call(run, run, 60000));
}

static void may_crash_or_hang(void **state)
{
    assert_false(call(crash, NULL, 60000));
    assert_false(call(hang, NULL, 50));
    assert_int_equal(waitpid(-1, NULL, 0), -1); /* nothing is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_with_the_rights_of_workers),
        cmocka_unit_test(says_how_it_went),
        cmocka_unit_test(may_crash_or_hang),
    };

    clock_update();
    seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
