/* Tests of the lists that are made from rows. */
#include "conf/toy.h"

static const struct conf_table tables[] = {{&main_table, NULL},
                                           {&plain_table, NULL},
                                           {&twin_table, NULL}};

static void names_by_module(void **state)
{
    struct buf out = {0};

    conf_list_directives(tables, COUNT(tables), &out, false);
    assert_str(buf_str(&out), STR("all available directives:\n"
                                  "main_module:\n"
                                  "    daemon\n"
                                  "    pid\n"
                                  "    conf_file\n"
                                  "    workers\n"
                                  "    events\n"
                                  "    http\n"
                                  "    connections\n"
                                  "plain_module:\n"
                                  "    number\n"
                                  "    words\n"
                                  "    connections\n"));
    buf_free(&out);
}

static bool has(const struct buf *out, const char *text)
{
    return str_find(buf_str(out), str_of(text)) != NULL;
}

static void the_manual(void **state)
{
    static const struct conf_table all[] = {{&main_table, NULL}, {&place_table, NULL}};
    struct buf out = {0};

    conf_list_directives(all, COUNT(all), &out, true);
    assert_true(has(&out, "# Directives\n\n## main_module\n\n### daemon\n\n"
                          "- Syntax: `daemon on | off;`\n- Default: `daemon on;`\n"
                          "- Context: main\n- Source: tests/conf/toy.h:"));
    assert_true(has(&out, "\n\nOwn process.\n\n### pid\n"));
    assert_false(has(&out, "unknown"));
    assert_true(has(&out, "- Syntax: `http { ... }`\n- Default: none\n"));
    assert_true(has(&out, "- Syntax: `location value [value ...] { ... }`\n"));
    assert_true(has(&out, "- Syntax: `satisfy all | any;`\n"));
    assert_true(has(&out, "- Context: http, server, location, if in location\n"));
    assert_true(has(&out, "Deprecated, use `root` instead."));
    assert_true(has(&out, "Accepted with a warning, has no effect. "));
    buf_free(&out);
}

static int forget_calls(void **state)
{
    buf_free(&calls);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        conf_test(names_by_module),
        conf_test(the_manual),
    };

    return cmocka_run_group_tests_name("conf/list", tests, NULL, forget_calls);
}
