/* The ends of a process: no memory, and an object that is not what it was taken for. */
#include "base/fatal.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unit.h"
#include "config.h"

#define THING_MAGIC 0x7417u

struct thing {
    uint32_t magic;
};

static int told;

static void tell(int error, const char *text)
{
    dprintf(told, "%d %s", error, text);
}

/* What a child says that does it, and how it ends. */
static int end_of(void (*run)(void), char *text, size_t size)
{
    int ends[2];
    int status;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();

    if (child == 0) {
        told = ends[1];
        fatal_report = tell;
        run();
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], text, size - 1);

    text[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void no_memory(void)
{
    fatal_no_memory(77);
}

static void wrong_object(void)
{
    struct thing thing = {1};

    signal(SIGABRT, SIG_DFL);
    CHECK_MAGIC(&thing, THING_MAGIC);
}

static void right_object(void)
{
    struct thing thing = {THING_MAGIC};

    CHECK_MAGIC(&thing, THING_MAGIC);
}

static void no_memory_ends_with_status_1(void **state)
{
    char text[300];
    int status = end_of(no_memory, text, sizeof(text));

    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_true(strstr(text, "malloc(77) failed") != NULL && atoi(text) == ENOMEM);
}

static void a_wrong_object_aborts_with_its_name(void **state)
{
    char text[300];
    int status = end_of(wrong_object, text, sizeof(text));

    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "test_fatal.c:"));
    assert_non_null(strstr(text, "an object lacks its THING_MAGIC"));
}

static void a_right_object_passes(void **state)
{
    char text[300];

    assert_int_equal(end_of(right_object, text, sizeof(text)), 0);
    assert_string_equal(text, "");
}

#ifdef WITH_SANITIZER
static void overflow(void)
{
    volatile int most = INT_MAX;

    signal(SIGILL, SIG_DFL);
    most = most + 1;
}

static void undefined_behaviour_ends_a_process_with_sanitizers(void **state)
{
    char text[300];

    assert_int_not_equal(end_of(overflow, text, sizeof(text)), 0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#ifdef WITH_SANITIZER
        cmocka_unit_test(undefined_behaviour_ends_a_process_with_sanitizers),
#endif
        cmocka_unit_test(no_memory_ends_with_status_1),
        cmocka_unit_test(a_wrong_object_aborts_with_its_name),
        cmocka_unit_test(a_right_object_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
