/* Tests of memcached's answers. The module is one file whose insides are looked at here. */
#include "http/fixture.h"

#include "http/exchange.h"
#include "http/modules/backends/memcached.c"

static struct exchange_settings settings = {.buffer_size = 1024};
static struct memcached_settings own;
static struct protocol protocol;
static struct exchange *x;
static struct buf answer_body;

static enum head_result begin(const char *text, size_t bytes)
{
    assert_read("server { listen 127.0.0.1:8080; types { text/css css; } location / {} }");
    prepare(0, "GET /a.css HTTP/1.1\r\nHost: a\r\n\r\n");
    request_set_location(request, request->server->root);
    protocol = memcached_protocol;
    protocol.channel = &text_channel;
    x = exchange_new(request, &protocol, &settings, &own);
    struct value_reading *asked = arena_new(&request->arena, struct value_reading);
    asked->key = STR("/a.css");
    x->state = asked;
    x->response.content_length = -1;
    answer_body.len = 0;
    protocol.begin_response(x);
    backend_sends(str_of(text), bytes);
    return read_whole_head(x);
}

static enum body_result read_both(const char *text, unsigned status, const char *body_text)
{
    enum body_result whole = BODY_MORE;

    for (int is_whole = 1; is_whole >= 0; is_whole--) {
        assert_int_equal(begin(text, is_whole ? strlen(text) : 0), HEAD_DONE);
        assert_int_equal(x->response.status, status);
        enum body_result result = read_whole_body(x, &answer_body);
        assert_str(buf_str(&answer_body), str_of(body_text));
        assert_true(is_whole || result == whole);
        whole = result;
    }
    buf_free(&answer_body);
    return whole;
}

static void an_entry(void **state)
{
    own.gzip_flag = 0;
    assert_int_equal(read_both("VALUE /a.css 3 5\r\nhello\r\nEND\r\n", 200, "hello"), BODY_END);
    assert_true(x->is_reusable);
    assert_int_equal(x->response.content_length, 5);
    assert_int_equal(x->response.fields.count, 0);
    assert_text(request->response.content_type, "text/css");
    assert_int_equal(read_both("VALUE /a.css 0 0\r\n\r\nEND\r\n", 200, ""), BODY_END);
    assert_true(x->is_reusable);
}

static void a_compressed_entry(void **state)
{
    own.gzip_flag = 2;
    assert_int_equal(read_both("VALUE /a.css 3 1\r\nx\r\nEND\r\n", 200, "x"), BODY_END);
    assert_text(fields_get(&x->response.fields, FIELD_CONTENT_ENCODING)->value, "gzip");
    own.gzip_flag = 4;
    assert_int_equal(begin("VALUE /a.css 3 1\r\nx\r\nEND\r\n", 27), HEAD_DONE);
    assert_null(fields_get(&x->response.fields, FIELD_CONTENT_ENCODING));
    own.gzip_flag = 0;
}

static void no_entry(void **state)
{
    assert_int_equal(read_both("END\r\n", 404, ""), BODY_END);
    assert_true(x->is_reusable);
    assert_true(x->response.has_no_page);
    assert_true(was_logged("[info] key: \"/a.css\" was not found by memcached"));
}

static void heads_that_are_none(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } bad[] = {
        {"ERROR\r\n", "memcached sent invalid response: \"ERROR\""},
        {"SERVER_ERROR out of memory\r\n", "memcached sent invalid response: \"SERVER_ERROR"},
        {"END\n", "memcached sent invalid response"},
        {"\n", "memcached sent invalid response"},
        {"VALUE /b 0 5\r\n", "memcached sent invalid key in response"},
        {"VALUE /a.css\r\n", "memcached sent invalid flags in response"},
        {"VALUE /a.css x 5\r\n", "memcached sent invalid flags in response"},
        {"VALUE /a.css 0\r\n", "memcached sent invalid length in response"},
        {"VALUE /a.css 0 5x\r\n", "memcached sent invalid length in response"},
        {"VALUE /a.css 0 5 7\r\n", "memcached sent invalid length in response"},
        {"VALUE /a.css 0 18446744073709551615\r\n", "memcached sent invalid length in response"},
    };

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(begin(bad[i].text, 0), HEAD_BAD);
        assert_true(was_logged(bad[i].message));
    }
    assert_int_equal(begin("VALUE /a.css 0 5", 0), HEAD_MORE);
}

static void ends_that_are_none(void **state)
{
    assert_int_equal(read_both("VALUE /a.css 0 2\r\nokXEND\r\n", 200, "ok"), BODY_BAD);
    assert_true(was_logged("memcached sent invalid trailer"));
    assert_false(x->is_reusable);
    assert_int_equal(read_both("VALUE /a.css 0 2\r\nok\r\nEN", 200, "ok"), BODY_BAD);
    assert_false(x->is_reusable);
    assert_int_equal(read_both("VALUE /a.css 0 9\r\nok", 200, "ok"), BODY_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(an_entry),           http_test(a_compressed_entry),
        http_test(no_entry),           http_test(heads_that_are_none),
        http_test(ends_that_are_none),
    };
    return http_tests_run("memcached", tests);
}
