/* Tests of heads that come as fields on a stream: what they may be, and what they say of the
 * request. */
#include "http/fixture.h"
#include "http/request/stream_head.h"

#define SERVERS                                                                                    \
    "server { listen 127.0.0.1:8080; server_name first; }\n"                                       \
    "server { listen 127.0.0.1:8080; server_name second; }"

static struct known_host known_host;
static struct stream_head stream_head;

static void begin(const char *text)
{
    known_host = (struct known_host){.len = 0};
    assert_read(text);
}

/* The fields of a text, "name: value\n" each, one after the other, as a head of a request or as
 * trailers. */
static unsigned take(const char *text, bool is_trailer)
{
    static const struct head_limits limits = {.line_max = 100,
                                              .head_max = 400,
                                              .headers_max = 5,
                                              .ignore_invalid = true};

    prepare(0, "GET / HTTP/1.1\r\nHost: first\r\n\r\n");
    request_free(request);
    request = request_new(&connection, &wire);
    request->head.version = HTTP_2;
    struct arena *arena = &request->arena;
    stream_head = (struct stream_head){
        .request = request,
        .fields = is_trailer ? arena_new(arena, struct fields) : &request->headers,
        .limits = &limits,
        .known_host = &known_host,
        .version = "HTTP/2.0",
        .is_trailer = is_trailer,
    };
    for (struct str rest = str_of(text); rest.len != 0;) {
        struct str line = arena_dup(arena, str_cut(&rest, '\n'));
        const char *colon = str_find(str_skip(line, 1), STR(": "));
        struct coded_field field = {.name = str_from(line.data, colon),
                                    .value = str_from(colon + 2, line.data + line.len)};

        field.longest_coded =
            (uint32_t) (field.name.len > field.value.len ? field.name.len : field.value.len);
        stream_head_take(&stream_head, &field, STREAM_NAME_UNKNOWN);
    }
    return stream_head.status;
}

static unsigned set_up(const char *text, bool is_last)
{
    take(text, false);
    stream_head_set_up(&stream_head, is_last);
    return stream_head.status;
}

static void assert_refused(const char *text, unsigned status, const char *reason)
{
    assert_int_equal(set_up(text, true), status);
    assert_string_equal(stream_head.reason, reason);
}

#define GET ":method: GET\n:scheme: http\n:path: /a/../b?c=d\n:authority: Second:8080\n"

static void a_usual_head(void **state)
{
    begin(SERVERS);
    for (int i = 0; i < 2; i++) { /* the second one's host is known */
        assert_int_equal(set_up(":method: GET\n:scheme: http\n:path: /b%41?c=d\n"
                                ":authority: second:8080\nuser-agent: x\n",
                                true),
                         0);
        assert_text(request->head.line, "GET /b%41?c=d HTTP/2.0");
        assert_text(request->uri, "/bA");
        assert_text(request->args, "c=d");
        assert_text(request->head.host, "second");
        assert_text(request->head.port, "8080");
        assert_text(request->server->name, "second");
        assert_text(fields_get(&request->headers, FIELD_HOST)->value, "second:8080");
        assert_true(request->incoming.is_read);
    }
}

static void a_host_is_as_good_as_an_authority(void **state)
{
    begin(SERVERS);
    assert_int_equal(set_up(":method: GET\n:scheme: http\n:path: /\nhost: second\n", true), 0);
    assert_text(request->server->name, "second");
    assert_int_equal(set_up(GET "host: second:8080\n", true), 0);
    assert_text(request->uri, "/b");
    assert_refused(GET "host: first\n", 400,
                   "client sent \"host\" that differs from \":authority\"");
    assert_refused(":method: GET\n:scheme: http\n:path: /\n", 400,
                   "client sent neither \":authority\" nor \"host\" header");
    assert_refused(":method: GET\n:scheme: http\n:path: /\nhost: a b\n", 400,
                   "client sent invalid host header");
}

static void pseudo_fields(void **state)
{
    begin(SERVERS);
    assert_refused(GET "accept: a\n:path: /\n", 400, "client sent out of order pseudo-headers");
    assert_refused(GET ":path: /\n", 400, "client sent duplicate pseudo-header");
    assert_refused(GET ":status: 200\n", 400, "client sent unknown pseudo-header");
    assert_refused(":scheme: http\n:path: /\nhost: a\n", 400, "client sent no :method header");
    assert_refused(":method: GET\n:path: /\nhost: a\n", 400, "client sent no :scheme header");
    assert_refused(":method: GET\n:scheme: http\nhost: a\n", 400, "client sent no :path header");
    assert_refused(":method: get\n:scheme: http\n:path: /\nhost: a\n", 400,
                   "client sent invalid method");
    assert_refused(":method: GET\n:scheme: 1\n:path: /\nhost: a\n", 400,
                   "client sent invalid :scheme header");
    assert_refused(":method: GET\n:scheme: http\n:path: /a b\nhost: a\n", 400,
                   "client sent invalid :path header");
    assert_refused(":method: TRACE\n:scheme: http\n:path: /\nhost: a\n", 405,
                   "client sent TRACE method");
}

static void fields_that_may_not_be(void **state)
{
    begin(SERVERS);
    assert_refused(GET "connection: close\n", 400, "client sent connection-specific header");
    assert_refused(GET "proxy-connection: close\n", 400, "client sent connection-specific header");
    assert_refused(GET "transfer-encoding: chunked\n", 400,
                   "client sent connection-specific header");
    assert_refused(GET "te: gzip\n", 400, "client sent connection-specific header");
    assert_int_equal(set_up(GET "te: trailers\n", true), 0);
    assert_refused(GET "X-Upper: a\n", 400, "client sent invalid header name");
    assert_refused(GET "if-range: a\nif-range: b\n", 400, "client sent duplicate header line");
    assert_refused(GET "x: a\rb\n", 400, "client sent header with invalid value");
    assert_int_equal(set_up(GET "a~b: c\n", true), 0); /* left out */
    assert_null(fields_find(&request->headers, STR("a~b")));
}

static void cookies_in_pieces(void **state)
{
    begin(SERVERS);
    assert_int_equal(set_up(GET "cookie: a=1\ncookie: b=2\n", true), 0);
    assert_text(fields_get(&request->headers, FIELD_COOKIE)->value, "a=1; b=2");
}

static void lengths(void **state)
{
    begin(SERVERS);
    assert_int_equal(set_up(GET "content-length: 5\nexpect: 100-continue\n", false), 0);
    assert_int_equal(request->incoming.length, 5);
    assert_true(request->incoming.expects_continue);
    assert_false(request->incoming.is_chunked);
    assert_int_equal(set_up(GET, false), 0);
    assert_int_equal(request->incoming.length, -1);
    assert_true(request->incoming.is_chunked);
    assert_refused(GET "content-length: 5\n", 400, "client prematurely closed stream");
    assert_refused(GET "content-length: 5x\n", 400,
                   "client sent invalid \"Content-Length\" header");
}

static void limits_of_a_head(void **state)
{
    char text[1024];

    begin(SERVERS);
    snprintf(text, sizeof(text), GET "a: %0101d\n", 0);
    assert_refused(text, 494, "client sent too long header line");
    snprintf(text, sizeof(text), GET "a: %090d\nb: %090d\nc: %090d\nd: %090d\n", 0, 0, 0, 0);
    assert_refused(text, 494, "client sent too large request");
    assert_refused(GET "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\nf: 1\n", 400,
                   "client sent too many header lines");
}

static void connect_where_it_is_off(void **state)
{
    begin("server { listen 127.0.0.1:8080; server_name first; }");
    assert_refused(":method: CONNECT\n:authority: first:443\n", 405, "client sent CONNECT method");
}

static void websocket(void **state)
{
    begin(SERVERS);
    assert_int_equal(set_up(":method: CONNECT\n:protocol: websocket\n:scheme: http\n:path: /ws\n"
                            ":authority: first\n",
                            false),
                     0);
    assert_true(stream_head.is_upgrade);
    assert_int_equal(request->method, METHOD_GET);
    assert_text(fields_get(&request->headers, FIELD_UPGRADE)->value, "websocket");
    assert_non_null(fields_find(&request->headers, STR("sec-websocket-key")));
    assert_refused(":method: CONNECT\n:protocol: other\n:scheme: http\n:path: /ws\n"
                   ":authority: first\n",
                   501, "client sent CONNECT with unknown \":protocol\"");
    assert_refused(":protocol: websocket\n" GET, 400, "client sent \":protocol\" without CONNECT");
}

static void trailers(void **state)
{
    begin(SERVERS);
    assert_int_equal(take("x-sum: a\n", true), 0);
    assert_int_equal(stream_head.fields->count, 1);
    assert_int_equal(take(":path: /\n", true), 400);
    assert_string_equal(stream_head.reason, "client sent out of order pseudo-headers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        http_test(a_usual_head),      http_test(a_host_is_as_good_as_an_authority),
        http_test(pseudo_fields),     http_test(fields_that_may_not_be),
        http_test(cookies_in_pieces), http_test(lengths),
        http_test(limits_of_a_head),  http_test(connect_where_it_is_off),
        http_test(websocket),         http_test(trailers),
    };

    return http_tests_run("http/stream_head", tests);
}
