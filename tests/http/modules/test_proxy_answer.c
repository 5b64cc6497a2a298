/* Tests of the proxy's parser of answers: however the bytes come, the head, the body and its end
 * are the same. */
#include "base/unit.h"

#include <stdlib.h>
#include <string.h>

#include "http/modules/backends/proxy/proxy.h"

/* ---- an exchange whose channel is a text that arrives in steps ---- */

static struct str input; /* what is still to come */
static size_t arrived;   /* bytes of it that are there */
static struct request request;
static struct exchange_settings family = {.buffer_size = 4096};
static struct proxy_settings settings = {.pass_trailers = true};
static struct proxy_state state;
static struct conn conn;
static struct upstream_connection connection = {.conn = &conn};
static struct log quiet = {.level = LOG_STDERR};
static struct exchange x;
static char body[65536];
static size_t body_len;

static struct str text_input(struct exchange *exchange)
{
    return str_head(input, arrived);
}

static void text_consume(struct exchange *exchange, size_t n)
{
    assert_true(n <= arrived);
    input = str_skip(input, n);
    arrived -= n;
}

static const struct channel text_channel = {.input = text_input, .consume = text_consume};
static const struct protocol protocol = {.channel = &text_channel};

static void begin(const char *method, struct str text)
{
    input = text;
    arrived = 0;
    body_len = 0;
    arena_init(&request.arena);
    request.headers = (struct fields){0};
    request.log = quiet;
    state = (struct proxy_state){.method = str_of(method)};
    conn = (struct conn){0};
    x = (struct exchange){.request = &request,
                          .settings = &family,
                          .module_settings = &settings,
                          .state = &state,
                          .protocol = &protocol,
                          .connection = &connection,
                          .response.content_length = -1};
    proxy_begin_response(&x);
}

static enum head_result read_head(size_t step)
{
    enum head_result result;

    while ((result = proxy_read_head(&x)) == HEAD_MORE && arrived < input.len) {
        arrived += step < input.len - arrived ? step : input.len - arrived;
    }
    return result;
}

static enum body_result read_body(size_t step)
{
    enum body_result result;
    struct str data;

    for (;;) {
        result = proxy_read_body(&x, &data);
        if (result == BODY_DATA) {
            assert_true(body_len + data.len <= sizeof(body));
            memcpy(body + body_len, data.data, data.len);
            body_len += data.len;
        } else if (result != BODY_MORE) {
            return result;
        } else if (arrived < input.len) {
            arrived += step < input.len - arrived ? step : input.len - arrived;
        } else {
            conn.is_input_closed = true;
            return proxy_body_ended(&x);
        }
    }
}

static void end(void)
{
    arena_free(&request.arena);
}

/* ---- whole answers ---- */

static void good_answers(void **unused)
{
    static const struct {
        const char *method, *text, *body;
        unsigned status;
        bool is_reusable;
    } rows[] = {
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200, true},
        {"GET", "HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", "", 404, true},
        {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200, false},
        {"GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "ok",
         200, true},
        {"GET", "HTTP/1.1 200 OK\r\nConnection: x, close\r\nContent-Length: 2\r\n\r\nok", "ok", 200,
         false},
        {"GET", "HTTP/1.1 200 OK\r\n\r\nuntil closed", "until closed", 200, false},
        {"GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok",
         200, true},
        {"GET",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1;a\r\no\r\n01\r\nk\r\n0\r\nT: v\r\n\r\n",
         "ok", 200, true},
        {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "", 200, true},
        {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "", 200, true},
        {"GET", "HTTP/1.1 204 No\r\n\r\n", "", 204, true},
        {"GET", "HTTP/1.1 304 Same\r\nContent-Length: 5\r\n\r\n", "", 304, true},
        {"GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "ok", 200, true},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t step = 1; step <= 64; step += 9) {
            begin(rows[i].method, str_of(rows[i].text));
            assert_int_equal(read_head(step), HEAD_DONE);
            assert_int_equal(x.response.status, rows[i].status);
            assert_int_equal(read_body(step), BODY_END);
            assert_int_equal(body_len, strlen(rows[i].body));
            assert_memory_equal(body, rows[i].body, body_len);
            assert_int_equal(x.is_reusable, rows[i].is_reusable);
            end();
        }
    }
}

static void more_than_announced_is_not_trusted(void **unused)
{
    static const char *const rows[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokX",
        "HTTP/1.1 204 No\r\n\r\nX",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nX",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        begin("GET", str_of(rows[i]));
        assert_int_equal(read_head(1000), HEAD_DONE);
        assert_int_equal(read_body(1000), BODY_END);
        assert_false(x.is_reusable);
        end();
    }
}

static void cut_bodies(void **unused)
{
    static const char *const rows[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nT: v\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\nok\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nok\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nbad trailer\r\n\r\n",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t step = 1; step <= 64; step += 21) {
            begin("GET", str_of(rows[i]));
            assert_int_equal(read_head(step), HEAD_DONE);
            assert_int_equal(read_body(step), BODY_BAD);
            assert_false(x.is_reusable);
            end();
        }
    }
}

static void a_broken_connection_ends_no_body(void **unused)
{
    begin("GET", STR("HTTP/1.1 200 OK\r\n\r\nsome"));
    assert_int_equal(read_head(100), HEAD_DONE);
    conn.is_broken = true;
    assert_int_equal(read_body(100), BODY_BAD);
    end();
}

static void protocols_are_switched_when_asked(void **unused)
{
    struct str text = STR("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nraw");

    begin("GET", text);
    assert_int_equal(read_head(100), HEAD_BAD);
    end();
    begin("GET", text);
    fields_add(&request.headers, &request.arena, STR("Upgrade"), STR("x"));
    assert_int_equal(read_head(100), HEAD_DONE);
    assert_true(x.response.is_upgrade);
    assert_int_equal(arrived, 3);
    end();
}

static void interim_answers_come_first(void **unused)
{
    begin(
        "GET",
        STR("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    assert_int_equal(read_head(3), HEAD_DONE);
    assert_int_equal(x.response.status, 103);
    x.response = (struct upstream_response){.content_length = -1};
    proxy_begin_response(&x);
    assert_int_equal(read_head(3), HEAD_DONE);
    assert_int_equal(x.response.status, 200);
    end();
}

static void trailers_are_kept_but_for_framing(void **unused)
{
    begin(
        "GET",
        STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: 1\r\nContent-Length: 9\r\n"
            "Set-Cookie: c\r\nB: 2\r\n\r\n"));
    assert_int_equal(read_head(100), HEAD_DONE);
    assert_int_equal(read_body(7), BODY_END);
    assert_non_null(x.response.trailers);
    assert_int_equal(x.response.trailers->count, 2);
    assert_non_null(fields_find(x.response.trailers, STR("a")));
    assert_non_null(fields_find(x.response.trailers, STR("b")));
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_answers),
        cmocka_unit_test(more_than_announced_is_not_trusted),
        cmocka_unit_test(cut_bodies),
        cmocka_unit_test(a_broken_connection_ends_no_body),
        cmocka_unit_test(protocols_are_switched_when_asked),
        cmocka_unit_test(interim_answers_come_first),
        cmocka_unit_test(trailers_are_kept_but_for_framing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
