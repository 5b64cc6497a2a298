/* Tests of heads of answers: status lines, fields, framing, and the status of the CGI kinds. */
#include "http/exchange/heads/response_head.h"
#include "http/fixture.h"

#include "http/exchange.h"

static struct exchange_settings settings = {.buffer_size = 1024};
static const struct protocol protocol = {.name = STR_INIT("test"), .channel = &text_channel};
static struct exchange *x;

/* A request to hang the exchange on. */
static void begin(void)
{
    assert_read("server { listen 127.0.0.1:8080; location / {} }");
    prepare(0, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    request_set_location(request, request->server->root);
    x = exchange_new(request, &protocol, &settings, NULL);
}

static enum head_result parse(const char *text, bool is_cgi)
{
    size_t used = 0;
    struct str input = str_of(text);

    begin();
    x->response = (struct upstream_response){.content_length = -1};
    enum head_result result = upstream_response_parse_fields(x, input, is_cgi, &used);
    if (result == HEAD_DONE) {
        assert_true(used <= input.len);
    }
    return result;
}

static struct str value_of(const char *name)
{
    const struct field *field = fields_find(&x->response.fields, str_of(name));

    return field == NULL ? STR_NONE : field->value;
}

/* ---- status lines ---- */

static enum head_result line(const char *text, struct upstream_response *response, size_t *used)
{
    *response = (struct upstream_response){.status = 0};
    *used = 0;
    return upstream_response_parse_status_line(str_of(text), response, used);
}

static void status_lines(void **state)
{
    struct upstream_response response;
    size_t used;

    assert_int_equal(line("HTTP/1.1 200 OK\r\nX", &response, &used), HEAD_DONE);
    assert_int_equal(used, 17);
    assert_int_equal(response.status, 200);
    assert_int_equal(response.version, HTTP_1_1);
    assert_int_equal(response.reason.len, 0);
    assert_int_equal(line("HTTP/1.0 404 Gone Fishing\n", &response, &used), HEAD_DONE);
    assert_int_equal(used, 26);
    assert_int_equal(response.version, HTTP_1_0);
    assert_text(response.reason, "Gone Fishing");
    assert_int_equal(line("HTTP/1.1 999\r\n", &response, &used), HEAD_DONE);
    assert_int_equal(response.status, 999);
    assert_int_equal(line("HTTP/1.1 204 \r\n", &response, &used), HEAD_DONE);
}

static void status_lines_that_are_none(void **state)
{
    static const char *const bad[] = {"X",
                                      "HTTQ/1.1 200 OK\r\n",
                                      "HTTP/2.0 200 OK\r\n",
                                      "HTTP/1.1  200 OK\r\n",
                                      "HTTP/1.1 20 OK\r\n",
                                      "HTTP/1.1 2x0 OK\r\n",
                                      "HTTP/1.1 2000 OK\r\n",
                                      "HTTP/1.1 099 OK\r\n",
                                      "HTTP/1.1 200OK\r\n",
                                      "HTTP/1.1\r\n",
                                      "HTTP/1.1 200 O\rK\r\n",
                                      "HTTP/1.1 200 O\x01K\r\n",
                                      "\r\nHTTP/1.1 200 OK\r\n"};
    struct upstream_response response;
    size_t used;

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(line(bad[i], &response, &used), HEAD_BAD);
    }
}

static void status_lines_to_come(void **state)
{
    static const char text[] = "HTTP/1.1 200 OK\r\n";
    struct upstream_response response;
    size_t used;

    for (size_t n = 0; n + 1 < sizeof(text); n++) {
        assert_int_equal(upstream_response_parse_status_line((struct str){text, n}, &response,
                                                             &used),
                         HEAD_MORE);
    }
}

/* ---- fields ---- */

static void fields_are_kept_in_order(void **state)
{
    char text[] =
        "Content-Length: 12\r\nX_Odd.name: a\tb \r\nSet-Cookie: a\r\nset-cookie: b\r\nEmpty:\r\n\r\nB";
    size_t used;

    begin();
    assert_int_equal(upstream_response_parse_fields(x, str_of(text), false, &used), HEAD_DONE);
    assert_int_equal(text[used], 'B');
    memset(text, '#', sizeof(text) - 1); /* they are the exchange's own */
    assert_int_equal(x->response.content_length, 12);
    assert_int_equal(x->response.fields.count, 5);
    assert_text(x->response.fields.items[1].name, "X_Odd.name");
    assert_text(x->response.fields.items[1].value, "a\tb");
    assert_text(x->response.fields.items[3].value, "b");
    assert_false(x->response.fields.items[3].is_removed);
    assert_int_equal(x->response.fields.items[4].value.len, 0);
}

static void no_fields(void **state)
{
    assert_int_equal(parse("\r\n", false), HEAD_DONE);
    assert_int_equal(x->response.fields.count, 0);
    assert_int_equal(x->response.content_length, -1);
}

static void line_ends_of_one_byte(void **state)
{
    assert_int_equal(parse("A: 1\nB: 2\n\nbody", false), HEAD_DONE);
    assert_text(value_of("B"), "2");
}

static void byte_by_byte(void **state)
{
    static const char text[] = "Content-Length: 3\r\nX: 1\r\nY: 2\r\n\r\n";
    size_t used;

    begin();
    for (size_t n = 0; n + 1 < sizeof(text); n++) {
        assert_int_equal(upstream_response_parse_fields(x, (struct str){text, n}, false, &used),
                         HEAD_MORE);
    }
    assert_int_equal(upstream_response_parse_fields(x, str_of(text), false, &used), HEAD_DONE);
    assert_int_equal(used, sizeof(text) - 1);
    assert_int_equal(x->response.fields.count, 3);
}

static void too_big(void **state)
{
    static char text[4096];

    memset(text, 'a', sizeof(text) - 1);
    assert_int_equal(parse(text, false), HEAD_BAD);
    assert_true(was_logged("upstream sent too big header"));
    for (size_t i = 0; i + 4 < sizeof(text); i += 4) {
        memcpy(text + i, "a:b\n", 4);
    }
    assert_int_equal(parse(text, false), HEAD_BAD);
    assert_true(was_logged("upstream sent too big header"));
}

static void invalid_lines(void **state)
{
    static const char *const bad[] = {"X Y: a\r\n\r\n",  "X : a\r\n\r\n",      ": a\r\n\r\n",
                                      "Foo\r\n\r\n",     "A: b\r\n c\r\n\r\n", "A: b\x01\r\n\r\n",
                                      "A: b\rc\r\n\r\n", "A: b\x7f\r\n\r\n",   "\tA: b\r\n\r\n"};

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(parse(bad[i], false), HEAD_BAD);
        assert_true(was_logged("upstream sent invalid header: \""));
    }
    begin();
    size_t used;
    assert_int_equal(upstream_response_parse_fields(x, STR("A: b\0c\r\n\r\n"), false, &used),
                     HEAD_BAD);
}

static void framing_that_contradicts(void **state)
{
    static const struct {
        const char *text;
        const char *message;
    } bad[] = {
        {"Content-Length: 2x\r\n\r\n", "upstream sent invalid \"Content-Length\" header: \"2x\""},
        {"Content-Length: -2\r\n\r\n", "upstream sent invalid \"Content-Length\" header"},
        {"Content-Length:\r\n\r\n", "upstream sent invalid \"Content-Length\" header"},
        {"Content-Length: 99999999999999999999\r\n\r\n",
         "upstream sent invalid \"Content-Length\""},
        {"Content-Length: 2, 2\r\n\r\n", "upstream sent invalid \"Content-Length\" header"},
        {"Content-Length: 2\r\nContent-Length: 2\r\n\r\n",
         "upstream sent duplicate header line: \"Content-Length: 2\""},
        {"Transfer-Encoding: gzip, chunked\r\n\r\n",
         "upstream sent unknown \"Transfer-Encoding\": \"gzip, chunked\""},
        {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
         "upstream sent duplicate header line: \"Transfer-Encoding: chunked\""},
        {"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
         "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"},
        {"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n",
         "upstream sent \"Content-Length\" and \"Transfer-Encoding\" headers at the same time"},
    };

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(parse(bad[i].text, false), HEAD_BAD);
        assert_true(was_logged(bad[i].message));
    }
    assert_int_equal(parse("Transfer-Encoding: Chunked\r\n\r\n", false), HEAD_DONE);
    assert_int_equal(x->response.content_length, -1);
}

static void only_the_first_of_single_ones_counts(void **state)
{
    assert_int_equal(parse("Expires: foo\r\nVary: a\r\nExpires: bar\r\nVary: b\r\n\r\n", false),
                     HEAD_DONE);
    assert_text(value_of("Expires"), "foo");
    assert_true(x->response.fields.items[2].is_removed);
    assert_false(x->response.fields.items[3].is_removed);
    assert_true(was_logged("[warn] upstream sent duplicate header line: \"Expires: bar\", previous "
                           "value: \"Expires: foo\", ignored"));
}

/* ---- the CGI kinds ---- */

static void cgi_status(void **state)
{
    assert_int_equal(parse("Status: 404 Not Here\r\n\r\n", true), HEAD_DONE);
    assert_int_equal(x->response.status, 404);
    assert_text(x->response.reason, "Not Here");
    assert_int_equal(parse("Status: 404 Not Found\r\n\r\n", true), HEAD_DONE);
    assert_int_equal(x->response.reason.len, 0);
    assert_int_equal(parse("Status: 503\r\n\r\n", true), HEAD_DONE);
    assert_int_equal(x->response.status, 503);
    assert_int_equal(parse("A: b\r\n\r\n", true), HEAD_DONE);
    assert_int_equal(x->response.status, 200);
    assert_int_equal(parse("Location: /x\r\n\r\n", true), HEAD_DONE);
    assert_int_equal(x->response.status, 302);
    assert_int_equal(parse("Location: /x\r\nStatus: 201 Created\r\n\r\n", true), HEAD_DONE);
    assert_int_equal(x->response.status, 201);
    assert_int_equal(parse("Status: 404 x\r\n\r\n", false), HEAD_DONE);
    assert_int_equal(x->response.status, 0);
}

static void cgi_status_that_is_none(void **state)
{
    static const char *const bad[] = {"Status: abc\r\n\r\n", "Status: 20\r\n\r\n",
                                      "Status:\r\n\r\n", "Status: 2000\r\n\r\n",
                                      "Status: 099 x\r\n\r\n"};

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(parse(bad[i], true), HEAD_BAD);
        assert_true(was_logged("upstream sent invalid status \""));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(status_lines),
        http_test(status_lines_that_are_none),
        http_test(status_lines_to_come),
        http_test(fields_are_kept_in_order),
        http_test(no_fields),
        http_test(line_ends_of_one_byte),
        http_test(byte_by_byte),
        http_test(too_big),
        http_test(invalid_lines),
        http_test(framing_that_contradicts),
        http_test(only_the_first_of_single_ones_counts),
        http_test(cgi_status),
        http_test(cgi_status_that_is_none),
    };
    return http_tests_run("answer_head", tests);
}
