/* Tests of the apply engine: lookup, shapes, inheritance, order of hooks, defaults. */
#include "conf/toy.h"

static void defaults_go_through_the_parser(void **state)
{
    assert_text(run_http(""), "");
    const struct main_settings *m = conf_settings(conf_main_scope(&conf), &main_key);
    assert_true(m->daemon);
    assert_text(m->pid, "/run/logs/pid");
    assert_int_equal(m->workers, 1);

    const struct place_settings *p = place(0);
    assert_false(p->sendfile);
    assert_int_equal(p->satisfy, 1);
    assert_int_equal(p->methods, 1);
    assert_int_equal(p->buffer, 8192);
    assert_int_equal(p->body, 1 << 20);
    assert_int_equal(p->timeout, 60000);
    assert_int_equal(p->age, 86400);
    assert_text(p->root, "html");
    assert_int_equal(p->buffers.number, 8);
    assert_int_equal(p->buffers.size, 4096);
    assert_int_equal(p->index.count, 2);
    assert_text(*vec_at(&p->index, struct str, 1), "index.htm");
    assert_int_equal(p->headers.count, 2);
    assert_text(vec_at(&p->headers, struct key_template, 0)->key, "Host");
    assert_text(vec_at(&p->headers, struct key_template, 1)->text->constant, "");
    assert_int_equal(p->rules.count, 2);
    assert_text(*vec_at(&p->rules, struct str, 1), "second");
    assert_text(p->derived, "html!");
    assert_true(p->rate->is_constant);
    assert_false(p->text->is_constant);
}

static void values_are_copied_down(void **state)
{
    assert_text(run_http("server { location a { } sendfile on; root b;\n"
                         " location b { root c; location d { level 3; } } }\n"
                         "server { location e { } } level 2;"),
                "");
    /* http, server 1, a, b, d, server 2, e in order of their ends */
    assert_int_equal(scope_count, 7);
    assert_text(place(0)->name, "a");
    assert_true(place(0)->sendfile);
    assert_text(place(0)->root, "b");
    assert_text(place(0)->derived, "b!");
    assert_int_equal(place(0)->level, 2);
    assert_text(place(1)->name, "d");
    assert_text(place(1)->root, "c");
    assert_int_equal(place(1)->level, 3);
    assert_int_equal(place(2)->level, 2);
    assert_text(place(3)->name, "server");
    assert_text(place(4)->name, "e");
    assert_false(place(4)->sendfile);
    assert_text(place(4)->root, "html");
    assert_text(place(6)->name, "http");
    assert_text(place(6)->root, "html");
}

static void lists_replace_append_or_merge(void **state)
{
    assert_text(run_http("index a; index b; merged_list a; merged put; rule x;\n"
                         "server { merged_list b; merged post; location a { index c; }\n"
                         " location b { merged_list c; rule y; rule z; methods put;\n"
                         "  methods post; } }"),
                "");
    const struct place_settings *a = place(0), *b = place(1), *server = place(2), *http = place(3);

    assert_int_equal(http->index.count, 2);
    assert_int_equal(server->index.count, 2);
    assert_int_equal(a->index.count, 1);
    assert_text(*vec_at(&a->index, struct str, 0), "c");
    assert_int_equal(http->merged_list.count, 1);
    assert_int_equal(server->merged_list.count, 2);
    assert_int_equal(a->merged_list.count, 2);
    assert_int_equal(b->merged_list.count, 3);
    assert_text(*vec_at(&b->merged_list, struct str, 0), "a");
    assert_text(*vec_at(&b->merged_list, struct str, 2), "c");
    assert_int_equal(http->merged, 2);
    assert_int_equal(server->merged, 6);
    assert_int_equal(http->rules.count, 1);
    assert_int_equal(b->rules.count, 2);
    assert_int_equal(http->methods, 1);
    assert_int_equal(b->methods, 6);
}

/* Two children append to what their parent has: neither sees the other's. */
static void siblings_do_not_share_lists(void **state)
{
    assert_text(run_http("merged_list a; merged_list b; merged_list c;\n"
                         "server { merged_list x; } server { merged_list y; }"),
                "");
    assert_text(*vec_at(&place(0)->merged_list, struct str, 3), "x");
    assert_text(*vec_at(&place(1)->merged_list, struct str, 3), "y");
    assert_int_equal(place(2)->merged_list.count, 3);
}

static void some_fields_start_anew(void **state)
{
    assert_text(run_http("server { location a { pass x; location b { } if c { } } }"), "");
    assert_text(place(0)->name, "b");
    assert_text(place(0)->handler, "");
    assert_text(place(1)->handler, "");
    assert_text(place(2)->handler, "x");
    place(2)->fresh_count = 5;
    assert_int_equal(place(0)->fresh_count, 0);
}

/* A table of plain rows is shared until a row is set. */
static void plain_tables_are_copied_on_first_use(void **state)
{
    assert_text(run_http("server { number 6; words a; location x { } location y { words b c; } }"),
                "");
    const struct plain_settings *x = conf_settings(scopes[0], &plain_key);
    const struct plain_settings *y = conf_settings(scopes[1], &plain_key);
    const struct plain_settings *server = conf_settings(scopes[2], &plain_key);
    const struct plain_settings *http = conf_settings(scopes[3], &plain_key);

    assert_ptr_equal(x, server);
    assert_ptr_not_equal(y, server);
    assert_int_equal(y->number, 6);
    assert_int_equal(y->words.count, 2);
    assert_int_equal(server->words.count, 1);
    assert_int_equal(http->number, 5);
    assert_int_equal(http->words.count, 0);
}

static void presence_is_of_the_block_itself(void **state)
{
    assert_text(run_http("root a; server { level 2; }"), "");
    assert_true(conf_is_set(scopes[1], &place_key, "root"));
    assert_false(conf_is_set(scopes[0], &place_key, "root"));
    assert_true(conf_is_set(scopes[0], &place_key, "level"));
    assert_false(conf_is_set(scopes[0], &place_key, "no_such"));
}

static void rows_then_hooks_then_blocks(void **state)
{
    assert_text(run_http("server { location a { } types { t; u v; } location b { } }"), "");
    assert_str(buf_str(&calls), STR("enter:http finish:http enter:server t/1 u/2 finish:server "
                                    "enter:a finish:a enter:b finish:b "));
}

static void names_mean_what_their_block_says(void **state)
{
    assert_text(run("events { connections 5; } http { server { connections a b; } }"), "");
    const struct plain_settings *server = conf_settings(scopes[1], &twin_key);
    assert_int_equal(server->words.count, 2);
}

static void errors_of_shape(void **state)
{
    static const struct {
        const char *text;
        const char *report;
    } cases[] = {
        {"foo 1;\nevents{}", "[emerg] unknown directive \"foo\" in t.conf:1\n"},
        {"foo {\n x y;\n bar;\n}\nevents{}", "[emerg] unknown directive \"foo\" in t.conf:1\n"},
        {"foo 1\n 2\n;", "[emerg] unknown directive \"foo\" in t.conf:3\n"},
        {"events;", "[emerg] directive \"events\" has no opening \"{\" in t.conf:1\n"},
        {"events 1 2;", "[emerg] directive \"events\" has no opening \"{\" in t.conf:1\n"},
        {"events x {}",
         "[emerg] invalid number of arguments in \"events\" directive in t.conf:1\n"},
        {"events {\n}\nevents\n{\n}\n", "[emerg] \"events\" directive is duplicate in t.conf:4\n"},
        {"daemon on;\ndaemon off;", "[emerg] \"daemon\" directive is duplicate in t.conf:2\n"},
        {"daemon {\n}", "[emerg] directive \"daemon\" is not terminated by \";\" in t.conf:1\n"},
        {"daemon\n on\n off;",
         "[emerg] invalid number of arguments in \"daemon\" directive in t.conf:3\n"},
        {"daemon;", "[emerg] invalid number of arguments in \"daemon\" directive in t.conf:1\n"},
        {"level 1;", "[emerg] \"level\" directive is not allowed here in t.conf:1\n"},
        {"http { server { if x { root a; } } }",
         "[emerg] \"root\" directive is not allowed here in t.conf:1\n"},
        {"http { types { a { } b; } }", "[emerg] unexpected \"{\" in t.conf:1\n"},
        {"http { gone a b; }",
         "[warn] the \"gone\" directive is obsolete and has no effect in t.conf:1\n"},
        {"http { old_root b; }", "[warn] the \"old_root\" directive is deprecated, use the "
                                 "\"root\" directive instead in t.conf:1\n"},
        {"http { rule bad; }", "[emerg] bad rule in t.conf:1\n"},
        {"http { rule silent; }", "[emerg] invalid \"rule\" directive in t.conf:1\n"},
        {"http { level 7; }", "[emerg] seven is unlucky in t.conf:1\n"},
        {"http { server { location twice\n{\n} } }",
         "[emerg] duplicate location \"twice\" in t.conf:2\n"},
        {"http { server { location empty\n{\n\n} } }",
         "[emerg] nothing is inside \"empty\" in t.conf:4\n"},
        {"http { server {\n level 13; }\n\n}", "[emerg] level 13 does not fit in t.conf:4\n"},
        {"http { text $nosuch; }", "[emerg] unknown \"nosuch\" variable\n"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        tear_down(state);
        set_up(state);
        assert_str(run(cases[i].text), str_of(cases[i].report));
    }
}

static void all_errors_come_once_in_order_of_the_file(void **state)
{
    assert_text(run("foo;\n"
                    "http {\n"
                    " server {\n"
                    "  location a { bar; }\n"
                    "  level x;\n"
                    "  text $nosuch;\n"
                    "  text b;\n"
                    " }\n"
                    " baz\n"
                    "}\n"
                    "daemon maybe;\n"
                    "'a'b;\n"
                    "http { qux; }\n"),
                "[emerg] unknown directive \"foo\" in t.conf:1\n"
                "[emerg] unknown directive \"bar\" in t.conf:4\n"
                "[emerg] \"level\" directive invalid number in t.conf:5\n"
                "[emerg] \"text\" directive is duplicate in t.conf:7\n"
                "[emerg] unexpected \"}\" in t.conf:10\n"
                "[emerg] unknown \"nosuch\" variable\n"
                "[emerg] invalid value \"maybe\" in \"daemon\" directive, it must be \"on\" or "
                "\"off\" in t.conf:11\n"
                "[emerg] unexpected \"b\" in t.conf:12\n"
                "[emerg] \"http\" directive is duplicate in t.conf:13\n");
}

/* After an error in a block, what its hook says would be about our leftovers. */
static void hooks_of_a_bad_block_are_silent(void **state)
{
    assert_text(run_http("level 13; foo; server { }"),
                "[emerg] unknown directive \"foo\" in t.conf:2\n"
                "[emerg] level 13 does not fit in t.conf:3\n");
    tear_down(state);
    set_up(state);
    assert_text(run_http("server { level 13; foo; }"),
                "[emerg] unknown directive \"foo\" in t.conf:2\n");
}

/* What a block inherits, the hook of each inner block finds wrong again. */
static void hooks_say_a_thing_once(void **state)
{
    assert_text(run_http("level 13; server { location a { } location b { level 2; } }"),
                "[emerg] level 13 does not fit in t.conf:3\n");
    assert_int_equal(conf.error_count, 1);
}

/* A second reading in the same process has defaults of its own. */
static void readings_follow_each_other(void **state)
{
    assert_text(run_http("root a;"), "");
    tear_down(state);
    set_up(state);
    assert_text(run_http("server { }"), "");
    assert_text(place(0)->root, "html");
    assert_int_equal(place(0)->index.count, 2);
}

static void modules_keep_state_while_reading(void **state)
{
    int *first = conf_state(&conf, "mine", sizeof(*first));

    assert_int_equal(*first, 0);
    *first = 5;
    assert_ptr_equal(conf_state(&conf, "mine", sizeof(*first)), first);
    assert_ptr_not_equal(conf_state(&conf, "other", sizeof(*first)), first);
}

static int forget_calls(void **state)
{
    buf_free(&calls);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        conf_test(defaults_go_through_the_parser),
        conf_test(values_are_copied_down),
        conf_test(lists_replace_append_or_merge),
        conf_test(siblings_do_not_share_lists),
        conf_test(some_fields_start_anew),
        conf_test(plain_tables_are_copied_on_first_use),
        conf_test(presence_is_of_the_block_itself),
        conf_test(rows_then_hooks_then_blocks),
        conf_test(names_mean_what_their_block_says),
        conf_test(errors_of_shape),
        conf_test(all_errors_come_once_in_order_of_the_file),
        conf_test(hooks_of_a_bad_block_are_silent),
        conf_test(hooks_say_a_thing_once),
        conf_test(readings_follow_each_other),
        conf_test(modules_keep_state_while_reading),
    };

    return cmocka_run_group_tests_name("conf/apply", tests, NULL, forget_calls);
}
