/* Tests of CGI parameters: configured ones, HTTP_* of the client's fields, what overrides what. */
#include "http/fixture.h"

#include "http/exchange/heads/params.h"

static struct exchange_settings settings = {.pass_request_headers = true};
static const struct protocol protocol = {.name = STR_INIT("test")};
static struct vec list;
static struct exchange *x;
static struct param_values values;

/* A list as `param NAME VALUE` lines make it. */
static void configure(void)
{
    assert_read("server { listen 127.0.0.1:8080; server_name site; location / {} }");
    conf_set_variables(&generation->conf, &http->variables);
    list = (struct vec){0};
}

static void param(const char *name, const char *value, bool skips_empty)
{
    struct conf *conf = &generation->conf;
    struct str args[] = {STR_INIT("x_param"), str_of(name), str_of(value),
                         STR_INIT("if_not_empty")};
    bool quoted[4] = {false};
    struct conf_node node = {.args = args, .quoted = quoted, .count = skips_empty ? 4 : 3};
    struct conf_scope scope = {.conf = conf, .node = &node};
    const struct directive row = {"x_param", .offset = 0};

    for (size_t i = 0; i < COUNT(args); i++) {
        args[i] = arena_dup(conf->arena, args[i]);
    }
    assert_true(param_apply(&scope, &row, &node, &list));
}

static void evaluate(const char *head)
{
    prepare(0, head);
    request_set_location(request, request->server->root);
    x = exchange_new(request, &protocol, &settings, NULL);
    params_evaluate(params_compile(&generation->conf, &list), x, 0, &values);
}

/* "NAME=value;NAME=value;", and what bytes should be. */
static struct str line(void)
{
    static struct buf out;
    size_t bytes = 0;

    out.len = 0;
    for (unsigned i = 0; i < values.count; i++) {
        const struct param_value *value = &values.items[i];
        buf_printf(&out, "%.*s=%.*s;", STR_ARG(value->name), STR_ARG(value->value));
        bytes += value->name.len + value->value.len;
    }
    assert_int_equal(values.bytes, bytes);
    struct str text = arena_dup(&request->arena, buf_str(&out));
    buf_free(&out);
    return text;
}

static void configured_ones_come_first_and_in_order(void **state)
{
    configure();
    param("A", "b", false);
    param("URI", "$request_uri", false);
    param("BOTH", "$scheme:$arg_x", false);
    param("A", "c", false);
    evaluate("GET /p?x=1 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_text(line(), "A=b;URI=/p?x=1;BOTH=http:1;A=c;HTTP_HOST=h;");
}

static void empty_ones(void **state)
{
    configure();
    param("KEPT", "$arg_none", false);
    param("SKIPPED", "$arg_none", true);
    param("ALSO", "${arg_none}", true);
    param("THERE", "$arg_x", true);
    evaluate("GET /?x=1 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_text(line(), "KEPT=;THERE=1;HTTP_HOST=h;");
}

static void fields_become_parameters(void **state)
{
    configure();
    evaluate("GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: ua\r\nX-My-Field: 1\r\nx-low: 2\r\n\r\n");
    assert_text(line(), "HTTP_HOST=h;HTTP_USER_AGENT=ua;HTTP_X_MY_FIELD=1;HTTP_X_LOW=2;");
}

static void several_of_one_name_are_joined(void **state)
{
    configure();
    evaluate("GET / HTTP/1.1\r\nHost: h\r\nFoo: a\r\nCookie: 1\r\nX: y\r\nfoo: b\r\nCookie: 2\r\n"
             "Via: v\r\nFOO:\r\nVia: w\r\n\r\n");
    assert_text(line(), "HTTP_HOST=h;HTTP_FOO=a, b, ;HTTP_COOKIE=1; 2;HTTP_X=y;HTTP_VIA=v, w;");
}

/* More fields than are compared each with each. */
static void many_fields_are_joined(void **state)
{
    struct buf head = {0};
    struct buf wanted = {0};

    configure();
    buf_append(&head, STR("GET / HTTP/1.1\r\nHost: h\r\n"));
    for (int i = 0; i < 60; i++) {
        buf_printf(&head, "X-%d: a\r\nCookie: %d\r\nVia: v\r\nFoo: f\r\n", i, i);
    }
    buf_append(&head, STR("x-7: b\r\nx-7: c\r\nUser-Agent: ua\r\n\r\n"));
    param("HTTP_X_8", "mine", false);
    param("HTTP_VIA", "mine", false);
    buf_append(&wanted, STR("HTTP_X_8=mine;HTTP_VIA=mine;HTTP_HOST=h;HTTP_X_0=a;HTTP_COOKIE=0"));
    for (int i = 1; i < 60; i++) {
        buf_printf(&wanted, "; %d", i);
    }
    buf_append(&wanted, STR(";HTTP_FOO=f"));
    for (int i = 1; i < 60; i++) {
        buf_append(&wanted, STR(", f"));
    }
    for (int i = 1; i < 60; i++) {
        if (i != 8) {
            buf_printf(&wanted, ";HTTP_X_%d=a%s", i, i == 7 ? ", b, c" : "");
        }
    }
    buf_append(&wanted, STR(";HTTP_USER_AGENT=ua;"));
    buf_append_char(&head, '\0');
    evaluate(head.data);
    assert_str(line(), buf_str(&wanted));
    buf_free(&head);
    buf_free(&wanted);
}

static void configured_ones_replace_fields(void **state)
{
    configure();
    param("HTTP_X_BLAH", "mine", false);
    param("HTTP_USER_AGENT", "", true);
    evaluate("GET / HTTP/1.1\r\nHost: h\r\nX-Blah: theirs\r\nUser-Agent: ua\r\nX-Blah: 2\r\n\r\n");
    assert_text(line(), "HTTP_X_BLAH=mine;HTTP_HOST=h;");
}

static void the_host_that_was_asked_for(void **state)
{
    configure();
    evaluate("GET http://Real:81/ HTTP/1.1\r\nHost: fake\r\n\r\n");
    assert_text(line(), "HTTP_HOST=real:81;");
    evaluate("GET / HTTP/1.0\r\n\r\n");
    assert_text(line(), "HTTP_HOST=site;");
    param("HTTP_HOST", "$http_host", false);
    evaluate("GET http://Real:81/ HTTP/1.1\r\nHost: fake\r\n\r\n");
    assert_text(line(), "HTTP_HOST=fake;");
}

static void without_fields(void **state)
{
    configure();
    param("A", "b", false);
    settings.pass_request_headers = false;
    evaluate("GET / HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n");
    settings.pass_request_headers = true;
    assert_text(line(), "A=b;HTTP_HOST=h;");
}

static void towards_the_cache(void **state)
{
    static const char head[] = "GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\nIf-Range: x\r\n"
                               "If-None-Match: theirs\r\nIf-Modified-Since: x\r\nX: y\r\n\r\n";

    configure();
    evaluate(head);
    x->cache.is_cacheable = true;
    params_evaluate(params_compile(&generation->conf, &list), x, 0, &values);
    assert_text(line(), "HTTP_HOST=h;HTTP_X=y;");
    x->cache.renews_etag = STR("\"e\"");
    x->cache.renews_since = STR("date");
    params_evaluate(params_compile(&generation->conf, &list), x, 0, &values);
    assert_text(line(),
                "HTTP_HOST=h;HTTP_IF_MODIFIED_SINCE=date;HTTP_IF_NONE_MATCH=\"e\";HTTP_X=y;");
    param("HTTP_IF_NONE_MATCH", "mine", false);
    params_evaluate(params_compile(&generation->conf, &list), x, 0, &values);
    assert_text(line(),
                "HTTP_IF_NONE_MATCH=mine;HTTP_HOST=h;HTTP_IF_MODIFIED_SINCE=date;HTTP_X=y;");
}

static void there_is_room_for_more(void **state)
{
    configure();
    param("A", "b", false);
    evaluate("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    params_evaluate(params_compile(&generation->conf, &list), x, 2, &values);
    values.items[values.count] = (struct param_value){STR("X"), STR("1")};
    values.items[values.count + 1] = (struct param_value){STR("Y"), STR("2")};
    assert_text(line(), "A=b;HTTP_HOST=h;");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(configured_ones_come_first_and_in_order),
        http_test(empty_ones),
        http_test(fields_become_parameters),
        http_test(several_of_one_name_are_joined),
        http_test(many_fields_are_joined),
        http_test(configured_ones_replace_fields),
        http_test(the_host_that_was_asked_for),
        http_test(without_fields),
        http_test(towards_the_cache),
        http_test(there_is_room_for_more),
    };
    return http_tests_run("params", tests);
}
