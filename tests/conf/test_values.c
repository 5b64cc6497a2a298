/* Tests of the value types: what each takes, and what it says to the rest. */
#include "conf/toy.h"

/* In http { }: the text and what is said of it ("" = taken). */
struct value_case {
    const char *text;
    const char *report;
};

static void check(void **state, const struct value_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tear_down(state);
        set_up(state);
        struct str expected = STR("");
        if (cases[i].report[0] != '\0') {
            expected = arena_printf(&arena, "%s in t.conf:2\n", cases[i].report);
        }
        assert_str(run_http(cases[i].text), expected);
    }
}

static void refusals(void **state)
{
    static const struct value_case cases[] = {
        {"sendfile ON;", ""},
        {"sendfile maybe;", "[emerg] invalid value \"maybe\" in \"sendfile\" directive, it must be "
                            "\"on\" or \"off\""},
        {"sendfile \"\";", "[emerg] invalid value \"\" in \"sendfile\" directive, it must be "
                           "\"on\" or \"off\""},
        {"sendfile on on;", "[emerg] invalid number of arguments in \"sendfile\" directive"},
        {"sendfile;", "[emerg] invalid number of arguments in \"sendfile\" directive"},
        {"satisfy ANY;", ""},
        {"satisfy maybe;", "[emerg] invalid value \"maybe\""},
        {"satisfy any all;", "[emerg] invalid number of arguments in \"satisfy\" directive"},
        {"methods get put;", ""},
        {"methods get get;", "[warn] duplicate value \"get\""},
        {"methods get; methods get;", "[warn] duplicate value \"get\""},
        {"methods;", "[emerg] invalid number of arguments in \"methods\" directive"},
        {"methods get head;", "[emerg] invalid value \"head\""},
        {"number 0;", ""},
        {"number 9223372036854775807;", ""},
        {"number 9223372036854775808;", "[emerg] \"number\" directive invalid number"},
        {"number 99999999999999999999;", "[emerg] \"number\" directive invalid number"},
        {"number -1;", "[emerg] \"number\" directive invalid number"},
        {"number x;", "[emerg] \"number\" directive invalid number"},
        {"number 1k;", "[emerg] \"number\" directive invalid number"},
        {"number \"\";", "[emerg] \"number\" directive invalid number"},
        {"level 20;", ""},
        {"level 21;", "[emerg] \"level\" directive value must be between 1 and 20"},
        {"level 0;", "[emerg] \"level\" directive value must be between 1 and 20"},
        {"level -1;", "[emerg] \"level\" directive invalid number"},
        {"buffer 1;", ""},
        {"buffer 1x;", "[emerg] \"buffer\" directive invalid value"},
        {"buffer 1g;", "[emerg] \"buffer\" directive invalid value"},
        {"buffer \"\";", "[emerg] \"buffer\" directive invalid value"},
        {"buffer -1;", "[emerg] \"buffer\" directive invalid value"},
        {"buffer 99999999999999999999;", "[emerg] \"buffer\" directive invalid value"},
        {"body 1t;", "[emerg] \"body\" directive invalid value"},
        {"body 9999999999g;", "[emerg] \"body\" directive invalid value"},
        {"timeout 1h30m;", ""},
        {"timeout \"1h 30m\";", ""},
        {"timeout 30m1h;", "[emerg] \"timeout\" directive invalid value"},
        {"timeout 1.5s;", "[emerg] \"timeout\" directive invalid value"},
        {"timeout 1M;", "[emerg] \"timeout\" directive invalid value"},
        {"timeout \"\";", "[emerg] \"timeout\" directive invalid value"},
        {"timeout 99999999999999999999;", "[emerg] \"timeout\" directive invalid value"},
        {"age 1y;", ""},
        {"age 1ms;", "[emerg] \"age\" directive invalid value"},
        {"buffers 1;", "[emerg] invalid number of arguments in \"buffers\" directive"},
        {"buffers x 1k;", "[emerg] \"buffers\" directive invalid value"},
        {"buffers 1 x;", "[emerg] \"buffers\" directive invalid value"},
        {"buffers 0 1k;", "[emerg] \"buffers\" directive invalid value"},
        {"buffers 4 0;", "[emerg] \"buffers\" directive invalid value"},
        {"text $;", "[emerg] invalid variable name"},
        {"rate 10x;", "[emerg] \"rate\" directive invalid value"},
        {"rate 10k;", ""},
        {"rate $host;", ""},
        {"rate 1; rate 2;", "[emerg] \"rate\" directive is duplicate"},
        {"skip $host \"${\";", "[emerg] invalid variable name"},
        {"header a;", "[emerg] invalid number of arguments in \"header\" directive"},
        {"header a b c;", "[emerg] invalid number of arguments in \"header\" directive"},
        {"header a $host; header a \"$host x\";", ""},
        {"header a \"${b\";", "[emerg] the closing bracket in \"b\" variable is missing"},
    };

    check(state, cases, COUNT(cases));
}

static void values_as_stored(void **state)
{
    assert_text(
        run("pid /a; conf_file x/y; workers 4; http { sendfile ON; satisfy Any; methods PUT;\n"
            "level 20; buffer 16K; body 2g; timeout \"1m 5s 3ms\"; age 1y1d; root \"\";\n"
            "text a; rate 1k; index a b c; skip $host 1; header A $host; header B 2;\n"
            "buffers 3 5m; }"),
        "");
    const struct main_settings *m = conf_settings(conf_main_scope(&conf), &main_key);
    const struct place_settings *p = place(0);

    assert_text(m->pid, "/a");
    assert_text(m->includes, "/etc/x/y");
    assert_int_equal(m->includes.data[m->includes.len], '\0');
    assert_int_equal(m->workers, 4);
    assert_true(p->sendfile);
    assert_int_equal(p->satisfy, 2);
    assert_int_equal(p->methods, 2);
    assert_int_equal(p->level, 20);
    assert_int_equal(p->buffer, 16384);
    assert_int_equal(p->body, (int64_t) 2 << 30);
    assert_int_equal(p->timeout, 65003);
    assert_int_equal(p->age, 366 * 86400);
    assert_text(p->root, "");
    assert_text(p->text->constant, "a");
    assert_text(p->rate->constant, "1k");
    assert_int_equal(p->index.count, 3);
    assert_int_equal(p->skip.count, 2);
    assert_int_equal(p->headers.count, 2);
    assert_text(vec_at(&p->headers, struct key_template, 1)->key, "B");
    assert_int_equal(p->buffers.number, 3);
    assert_int_equal(p->buffers.size, 5 << 20);
}

static void lower_bound_alone(void **state)
{
    assert_text(
        run("workers 0;"),
        "[emerg] \"workers\" directive value must be equal to or greater than 1 in t.conf:1\n");
}

/* A field keeps what it inherited when its own value is in error. */
static void errors_leave_the_field(void **state)
{
    run_http("buffer 4k; server { buffer x; }");
    assert_int_equal(place(0)->buffer, 4096);
}

static int forget_calls(void **state)
{
    buf_free(&calls);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        conf_test(refusals),
        conf_test(values_as_stored),
        conf_test(lower_bound_alone),
        conf_test(errors_leave_the_field),
    };

    return cmocka_run_group_tests_name("conf/values", tests, NULL, forget_calls);
}
