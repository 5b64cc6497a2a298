/* Tests of the texts that rewrite and return show to clients. */
#include "base/unit.h"

#include "http/modules/values/rewrite/rewrite.h"

static struct arena arena;

static int set_up(void **state)
{
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    return 0;
}

/* As Debian's nginx shows them. */
static void a_path_is_readable_up_to_its_question_mark(void **state)
{
    static const struct str pairs[][2] = {
        {STR_INIT("/plain"), STR_INIT("/plain")},
        {STR_INIT("/a%20b%26c"), STR_INIT("/a%20b&c")},
        {STR_INIT("/a%3Bc%3D"), STR_INIT("/a;c=")},
        {STR_INIT("/a%25%23%0A%7F%C3%A4"), STR_INIT("/a%25%23%0A%7F%C3%A4")},
        {STR_INIT("/a%3Fb%26c"), STR_INIT("/a?b%26c")},
        {STR_INIT("/%5C%7b%60"), STR_INIT("/\\{`")},
        {STR_INIT("/%"), STR_INIT("/%")},
        {STR_INIT("/%4"), STR_INIT("/%4")},
        {STR_INIT("/%zz%41"), STR_INIT("/%zzA")},
        {STR_INIT(""), STR_INIT("")},
    };

    for (size_t i = 0; i < COUNT(pairs); i++) {
        assert_str(rewrite_readable_path(&arena, pairs[i][0]), pairs[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_is_readable_up_to_its_question_mark),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
