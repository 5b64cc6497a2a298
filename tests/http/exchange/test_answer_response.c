/* Tests of accepted answers on their way to clients: which fields go, what X-Accel-* fields do. */
#include "http/exchange/heads/response_head.h"
#include "http/fixture.h"

#include "http/exchange.h"

#define CONF                                                                                       \
    "server { listen 127.0.0.1:8080; location / {} location /int/ { internal; } location @named {} }"

static struct exchange_settings settings;
static struct protocol protocol = {.name = STR_INIT("test"), .channel = &text_channel};
static struct exchange *x;

/* What the backend sent, on its way to a client's request for "/". */
static void accept_answer(const char *head)
{
    size_t used;

    assert_read(CONF);
    prepare(0, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    request_set_location(request, request->server->root);
    x = exchange_new(request, &protocol, &settings, NULL);
    x->response = (struct upstream_response){.status = 200, .content_length = -1};
    assert_int_equal(upstream_response_parse_fields(x, str_of(head), false, &used), HEAD_DONE);
}

static void pass(const char *head)
{
    accept_answer(head);
    assert_true(response_from_upstream(x));
}

static struct str sent(const char *name)
{
    const struct field *field = fields_find(&request->response.fields, str_of(name));

    return field == NULL ? STR_NONE : field->value;
}

static int reset(void **state)
{
    settings = (struct exchange_settings){.buffer_size = 4096, .buffering = true};
    protocol.adapt_field = NULL;
    return 0;
}

static void fields_with_a_place_of_their_own(void **state)
{
    pass("Content-Type: text/html; charset=UTF-8\r\nContent-Length: 7\r\nETag: W/\"x\"\r\n"
         "Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\n\r\n");
    const struct response *response = &request->response;
    assert_int_equal(response->status, 200);
    assert_text(response->content_type, "text/html; charset=UTF-8");
    assert_int_equal(response->content_length, 7);
    assert_int_equal(response->last_modified, 23349600);
    assert_text(response->last_modified_text, "Mon, 28 Sep 1970 06:00:00 GMT");
    assert_text(response->etag, "W/\"x\"");
    assert_int_equal(response->fields.count, 0);
}

static void a_date_that_is_none_is_passed_on(void **state)
{
    pass("Last-Modified: yesterday\r\n\r\n");
    assert_int_equal(request->response.last_modified, -1);
    assert_text(sent("Last-Modified"), "yesterday");
}

static void others_go_in_order(void **state)
{
    pass("Set-Cookie: a=1\r\nX-Foo: 1\r\nSet-Cookie: b=2\r\nLink: <a>\r\nUpgrade: h2c\r\n\r\n");
    const struct fields *fields = &request->response.fields;
    assert_int_equal(fields->count, 5);
    assert_text(fields->items[1].name, "X-Foo");
    assert_text(fields->items[2].value, "b=2");
    assert_text(fields->items[4].name, "Upgrade");
}

static void fields_of_the_connection_do_not(void **state)
{
    pass("Connection: close\r\nKeep-Alive: 5\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_int_equal(request->response.fields.count, 0);
}

static void hidden_ones_do_not(void **state)
{
    char mark;
    struct map hidden = {0};
    struct arena arena;

    arena_init(&arena);
    map_put_nocase(&hidden, &arena, STR("x-secret"), &mark);
    settings.hidden = &hidden;
    settings.hidden_ids = FIELD_BIT(FIELD_DATE) | FIELD_BIT(FIELD_SET_COOKIE);
    pass("Date: x\r\nSet-Cookie: a\r\nX-Secret: 1\r\nX-SECRET: 2\r\nX-Open: 3\r\n\r\n");
    assert_int_equal(request->response.fields.count, 1);
    assert_text(sent("X-Open"), "3");
    arena_free(&arena);
}

static void buffering_is_switched(void **state)
{
    pass("X-Accel-Buffering: no\r\n\r\n");
    assert_false(x->relay.is_buffered);
    settings.buffering = false;
    pass("X-Accel-Buffering: yes\r\n\r\n");
    assert_true(x->relay.is_buffered);
    settings.buffering = true;
    settings.ignore_headers = IGNORE_X_ACCEL_BUFFERING;
    pass("X-Accel-Buffering: no\r\n\r\n");
    assert_true(x->relay.is_buffered);
}

static void the_rate_is_limited(void **state)
{
    pass("X-Accel-Limit-Rate: 1234\r\n\r\n");
    assert_int_equal(request->delivery.limit_rate, 1234);
    assert_true(request->delivery.is_limit_set);
    pass("X-Accel-Limit-Rate: off\r\n\r\n");
    assert_int_equal(request->delivery.limit_rate, 0);
    assert_true(request->delivery.is_limit_set);
    pass("X-Accel-Limit-Rate: many\r\n\r\n");
    assert_false(request->delivery.is_limit_set);
    settings.ignore_headers = IGNORE_X_ACCEL_LIMIT_RATE;
    pass("X-Accel-Limit-Rate: 1234\r\n\r\n");
    assert_false(request->delivery.is_limit_set);
}

static void a_charset_is_asked_for(void **state)
{
    pass("Content-Type: text/html\r\nX-Accel-Charset: koi8-r\r\n\r\n");
    assert_text(request->response.wanted_charset, "koi8-r");
    assert_int_equal(request->response.charset.len, 0); /* that is for the module to say */
    pass("Content-Type: text/html\r\nX-Accel-Charset: a; b\r\n\r\n");
    assert_int_equal(request->response.wanted_charset.len, 0);
    settings.ignore_headers = IGNORE_X_ACCEL_CHARSET;
    pass("Content-Type: text/html\r\nX-Accel-Charset: koi8-r\r\n\r\n");
    assert_int_equal(request->response.wanted_charset.len, 0);
}

static void ranges_that_are_forced(void **state)
{
    pass("Accept-Ranges: none\r\n\r\n");
    assert_false(request->response.range.is_allowed);
    assert_text(sent("Accept-Ranges"), "none");
    settings.force_ranges = true;
    pass("Accept-Ranges: none\r\n\r\n");
    assert_true(request->response.range.is_allowed);
    assert_null(sent("Accept-Ranges").data);
}

static void adapt(struct exchange *adapting, struct field *field)
{
    if (str_starts(field->value, STR("http://back"))) {
        field->value = STR("/front");
    }
}

static void adapted_fields(void **state)
{
    protocol.adapt_field = adapt;
    pass("Location: http://back/x\r\nRefresh: http://back/y\r\nX: http://back/z\r\n\r\n");
    assert_text(request->response.location, "/front"); /* made absolute when it is sent */
    assert_text(sent("Refresh"), "/front");
    assert_text(sent("X"), "http://back/z");
    assert_text(x->response.fields.items[0].value, "http://back/x");
    pass("Location: /theirs\r\n\r\n");
    assert_int_equal(request->response.location.len, 0);
    assert_text(sent("Location"), "/theirs");
}

static void a_cookie_of_stickiness(void **state)
{
    accept_answer("A: b\r\n\r\n");
    x->pick.set_cookie = STR("route=1");
    assert_true(response_from_upstream(x));
    assert_text(sent("Set-Cookie"), "route=1");
}

/* ---- X-Accel-Redirect ---- */

static bool redirects(const char *head, enum handler_result *how)
{
    accept_answer(head);
    return upstream_response_redirects(x, how);
}

static void no_redirect(void **state)
{
    enum handler_result how;

    assert_false(redirects("Location: /x\r\n\r\n", &how));
    settings.ignore_headers = IGNORE_X_ACCEL_REDIRECT;
    assert_false(redirects("X-Accel-Redirect: /int/a\r\n\r\n", &how));
}

static void to_a_uri(void **state)
{
    enum handler_result how;

    assert_true(redirects("X-Accel-Redirect: /int/a%20b?c=%20d\r\nContent-Type: x/y\r\n"
                          "Set-Cookie: q\r\nContent-Disposition: attachment\r\nX-Foo: 1\r\n"
                          "Cache-Control: no-cache\r\nExpires: 0\r\nAccept-Ranges: none\r\n"
                          "ETag: \"a\"\r\nContent-Length: 3\r\nX-Accel-Limit-Rate: 5\r\n\r\n",
                          &how));
    assert_int_equal(how, HANDLER_AGAIN);
    assert_text(request->uri, "/int/a b");
    assert_text(request->args, "c=%20d");
    assert_true(request->is_internal);
    assert_text(request->response.content_type, "x/y");
    assert_int_equal(request->response.fields.count, 5);
    assert_text(sent("Content-Disposition"), "attachment");
    assert_int_equal(request->response.etag.len, 0);
    assert_int_equal(request->delivery.limit_rate, 5);
}

static void to_a_named_location(void **state)
{
    enum handler_result how;

    assert_true(redirects("X-Accel-Redirect: @named\r\n\r\n", &how));
    assert_int_equal(how, HANDLER_AGAIN);
    assert_text(request->location->name, "@named");
    assert_true(redirects("X-Accel-Redirect: @other\r\n\r\n", &how));
    assert_int_equal(how, HANDLER_FAIL);
    assert_int_equal(request->response.status, 500);
    assert_true(was_logged("could not find named location \"@other\""));
}

static void to_where_nothing_may_be(void **state)
{
    static const char *const unsafe[] = {"X-Accel-Redirect: /../x\r\n\r\n",
                                         "X-Accel-Redirect: /a/%2e%2e/x\r\n\r\n",
                                         "X-Accel-Redirect: x\r\n\r\n", "X-Accel-Redirect:\r\n\r\n",
                                         "X-Accel-Redirect: /a%00b\r\n\r\n"};

    for (size_t i = 0; i < COUNT(unsafe); i++) {
        enum handler_result how;
        assert_true(redirects(unsafe[i], &how));
        assert_int_equal(how, HANDLER_FAIL);
        assert_int_equal(request->response.status, 404);
        assert_true(was_logged("unsafe URI \""));
    }
}

#define response_test(function) cmocka_unit_test_setup_teardown(function, reset, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        response_test(fields_with_a_place_of_their_own),
        response_test(a_date_that_is_none_is_passed_on),
        response_test(others_go_in_order),
        response_test(fields_of_the_connection_do_not),
        response_test(hidden_ones_do_not),
        response_test(buffering_is_switched),
        response_test(the_rate_is_limited),
        response_test(a_charset_is_asked_for),
        response_test(ranges_that_are_forced),
        response_test(adapted_fields),
        response_test(a_cookie_of_stickiness),
        response_test(no_redirect),
        response_test(to_a_uri),
        response_test(to_a_named_location),
        response_test(to_where_nothing_may_be),
    };
    return http_tests_run("answer_response", tests);
}
