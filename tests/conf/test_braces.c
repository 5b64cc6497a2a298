/* Tests of errors about braces: one mistake is told once, what follows from it is not. */
#include "conf/toy.h"

static void a_brace_inside_a_word(void **state)
{
    run("http {\n server {\n root 200}\n}\n");
    assert_text(report(), "[emerg] unexpected \"}\" in t.conf:4\n");
}

/* The stray brace stands before the block that is open at the end. */
static void a_second_mistake_is_told(void **state)
{
    run("http {\n server {\n root x}\n}\n}\nhttp {\n");
    assert_non_null(str_find(report(), STR("unexpected \"}\" in t.conf:4\n")));
    assert_non_null(str_find(report(), STR("expecting \"}\" in t.conf:7\n")));
}

static void other_errors_hide_no_missing_brace(void **state)
{
    run("http {\n ;\n");
    assert_text(report(), "[emerg] unexpected \";\" in t.conf:2\n"
                          "[emerg] unexpected end of file, expecting \"}\" in t.conf:3\n");
}

static void a_brace_where_a_semicolon_belongs(void **state)
{
    run("daemon on {\nhttp {\n}\n");
    assert_text(report(), "[emerg] directive \"daemon\" is not terminated by \";\" in t.conf:1\n");
    assert_int_equal(conf.error_count, 1);
}

static void a_semicolon_where_a_brace_belongs(void **state)
{
    run("http;\n}\n");
    assert_text(report(), "[emerg] directive \"http\" has no opening \"{\" in t.conf:1\n");
    assert_int_equal(conf.error_count, 1);
}

/* One mistake excuses one brace, and only behind it. */
static void each_brace_needs_its_mistake(void **state)
{
    run("http;\n}\n}\n");
    assert_text(report(), "[emerg] directive \"http\" has no opening \"{\" in t.conf:1\n"
                          "[emerg] unexpected \"}\" in t.conf:3\n");
    tear_down(state);
    set_up(state);
    run("}\nhttp;\n");
    assert_text(report(), "[emerg] unexpected \"}\" in t.conf:1\n"
                          "[emerg] directive \"http\" has no opening \"{\" in t.conf:2\n");
}

/* ---- what src/server knows of unknown directives */

static struct str explain(struct conf *reading, struct str directive, uint32_t context)
{
    return str_is(directive, "gzip") && context == IN_MAIN ? STR("it is elsewhere") : STR_NONE;
}

static void unknown_directives_are_explained(void **state)
{
    conf.explain_unknown = explain;
    run("gzip on;\nhtpp { }\n");
    assert_text(report(), "[emerg] unknown directive \"gzip\" (it is elsewhere) in t.conf:1\n"
                          "[emerg] unknown directive \"htpp\" in t.conf:2\n");
}

static int forget_calls(void **state)
{
    buf_free(&calls);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        conf_test(a_brace_inside_a_word),
        conf_test(a_second_mistake_is_told),
        conf_test(other_errors_hide_no_missing_brace),
        conf_test(a_brace_where_a_semicolon_belongs),
        conf_test(a_semicolon_where_a_brace_belongs),
        conf_test(each_brace_needs_its_mistake),
        conf_test(unknown_directives_are_explained),
    };

    return cmocka_run_group_tests_name("conf/braces", tests, NULL, forget_calls);
}
