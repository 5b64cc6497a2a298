/* What environment a worker gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "server/process/environment.h"

static char *at_start[] = {"HOME=/root", "TZ=UTC", "HOMELESS=1", "PATH=/bin", NULL};
static struct arena arena;

static char **made(const char *const *names, char *const *extra)
{
    struct vec list = {0};

    for (; names != NULL && *names != NULL; names++) {
        *vec_add(&list, &arena, struct str) = str_of(*names);
    }
    return environment_make(&arena, &list, at_start, extra);
}

static void nothing_but_the_time_zone(void **state)
{
    char **got = made(NULL, NULL);

    assert_string_equal(got[0], "TZ=UTC");
    assert_null(got[1]);
}

static void named_variables_are_kept_or_set(void **state)
{
    const char *const names[] = {"HOME", "A=b=c", "NOSUCH", "HOME", "TZ=CET", NULL};
    char **got = made(names, NULL);

    assert_string_equal(got[0], "HOME=/root");
    assert_string_equal(got[1], "A=b=c");
    assert_string_equal(got[2], "TZ=CET");
    assert_null(got[3]);
}

static void extra_strings_come_first(void **state)
{
    char *extra[] = {"NGINX=3;", NULL};
    const char *const names[] = {"NGINX=9;", NULL};
    char **got = made(names, extra);

    assert_string_equal(got[0], "NGINX=3;");
    assert_string_equal(got[1], "TZ=UTC");
    assert_null(got[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_but_the_time_zone),
        cmocka_unit_test(named_variables_are_kept_or_set),
        cmocka_unit_test(extra_strings_come_first),
    };

    arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    arena_free(&arena);
    return failed;
}
