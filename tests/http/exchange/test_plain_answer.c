/* Tests of answers of SCGI and uwsgi: a CGI head, a body to its length or to the end of the
 * connection. */
#include "http/fixture.h"

#include "http/exchange.h"
#include "http/exchange/heads/plain.h"

static struct exchange_settings settings = {.buffer_size = 1024, .pass_request_body = true};
static const struct protocol protocol = {.name = STR_INIT("test"),
                                         .channel = &text_channel,
                                         .begin_response = plain_begin_response,
                                         .read_head = plain_read_head,
                                         .read_body = plain_read_body,
                                         .body_ended = plain_body_ended};
static struct exchange *x;
static struct conn backend;
static struct upstream_connection connection_of_backend = {.conn = &backend};
static struct buf answer_body;

/* The answer, whole (bytes = its length) or from so many bytes on one by one. */
static enum head_result begin(const char *text, size_t bytes)
{
    assert_read("server { listen 127.0.0.1:8080; location / {} }");
    prepare(0, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    request_set_location(request, request->server->root);
    x = exchange_new(request, &protocol, &settings, NULL);
    x->connection = &connection_of_backend;
    x->response.content_length = -1;
    backend = (struct conn){.magic = CONN_MAGIC};
    answer_body.len = 0;
    protocol.begin_response(x);
    backend_sends(str_of(text), bytes);
    return read_whole_head(x);
}

/* Whole, and byte by byte: the same. */
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
    assert_false(x->is_reusable);
    return whole;
}

static void to_the_end_of_the_connection(void **state)
{
    assert_int_equal(read_both("Content-Type: a/b\r\n\r\nhello", 200, "hello"), BODY_END);
    assert_int_equal(read_both("Status: 404 x\n\n", 404, ""), BODY_END);
}

static void to_its_length(void **state)
{
    assert_int_equal(read_both("Content-Length: 5\r\n\r\nhello", 200, "hello"), BODY_END);
    assert_int_equal(read_both("Content-Length: 0\r\n\r\n", 200, ""), BODY_END);
}

static void with_a_status_line(void **state)
{
    assert_int_equal(read_both("HTTP/1.1 201 Made\r\nContent-Length: 2\r\n\r\nok", 201, "ok"),
                     BODY_END);
    assert_text(x->response.reason, "Made");
    assert_int_equal(read_both("HTTP/1.1 404 Not Found\r\nStatus: 500 x\r\n\r\n", 404, ""),
                     BODY_END);
}

static void what_only_looks_like_one(void **state)
{
    assert_int_equal(read_both("HTTP-Like: 1\r\n\r\nx", 200, "x"), BODY_END);
}

static void too_much(void **state)
{
    assert_int_equal(read_both("Content-Length: 2\r\n\r\nokNOT", 200, "ok"), BODY_END);
    begin("Content-Length: 2\r\n\r\nokNOT", 26);
    read_whole_body(x, &answer_body);
    buf_free(&answer_body);
    assert_true(
        was_logged("[warn] upstream sent more data than specified in \"Content-Length\" header"));
}

static void too_little(void **state)
{
    assert_int_equal(read_both("Content-Length: 9\r\n\r\nhello", 200, "hello"), BODY_BAD);
    assert_true(was_logged("[error] upstream prematurely closed connection"));
}

static void broken_off(void **state)
{
    assert_int_equal(begin("A: b\r\n\r\nhello", 13), HEAD_DONE);
    backend.is_broken = true;
    backend.error = 104;
    assert_int_equal(read_whole_body(x, &answer_body), BODY_BAD);
    buf_free(&answer_body);
    assert_true(was_logged("recv() failed"));
}

static void no_body(void **state)
{
    assert_int_equal(read_both("Status: 204\r\nContent-Length: 5\r\n\r\nhello", 204, ""), BODY_END);
    assert_int_equal(read_both("Status: 304\r\n\r\n", 304, ""), BODY_END);
}

static void heads_that_are_none(void **state)
{
    assert_int_equal(begin("", 0), HEAD_MORE);
    assert_int_equal(begin("A: b\r\n", 6), HEAD_MORE);
    assert_int_equal(begin("garbage\r\n\r\n", 11), HEAD_BAD);
    assert_int_equal(begin("HTTP/1.1 200 OK\r\ngarbage\r\n\r\n", 0), HEAD_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(to_the_end_of_the_connection),
        http_test(to_its_length),
        http_test(with_a_status_line),
        http_test(what_only_looks_like_one),
        http_test(too_much),
        http_test(too_little),
        http_test(broken_off),
        http_test(no_body),
        http_test(heads_that_are_none),
    };
    return http_tests_run("plain_answer", tests);
}
