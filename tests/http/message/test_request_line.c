/* Tests of the request line (RFC 9112, 3): its forms, and what is refused. */
#include "http/head.h"

/* A line with the end of a head behind it. */
static enum parse_result parse_line(const char *line)
{
    return parse(arena_printf(&arena, "%s\r\nHost: a\r\n\r\n", line).data);
}

#define assert_line_refused(line, wanted)                                                          \
    do {                                                                                           \
        assert_int_equal(parse_line(line), PARSE_BAD);                                             \
        assert_int_equal(head.status, wanted);                                                     \
    } while (0)

static void the_usual_line(void **state)
{
    assert_int_equal(parse("GET /a/b?c=d HTTP/1.1\r\nHost: example.org\r\n\r\nrest"), PARSE_DONE);
    assert_text(head.line, "GET /a/b?c=d HTTP/1.1");
    assert_text(head.method, "GET");
    assert_text(head.target, "/a/b?c=d");
    assert_text(head.path, "/a/b?c=d");
    assert_int_equal(head.scheme.len, 0);
    assert_int_equal(head.authority.len, 0);
    assert_int_equal(head.version, 11);
    assert_true(head.is_line_done);
    assert_int_equal(head.size, 23 + 19 + 2);
    assert_int_equal(head.end, head.size);
}

static void methods(void **state)
{
    static const char *const good[] = {"GET", "POST", "PROPFIND", "X", "VERSION-CONTROL", "MY_OWN"};
    static const char *const bad[] = {"get", "Get",     "G3T",    "GET/", "G,T",
                                      "",    "\"GET\"", "G\x80T", "GET\t"};

    for (size_t i = 0; i < COUNT(good); i++) {
        assert_int_equal(parse_line(arena_printf(&arena, "%s / HTTP/1.1", good[i]).data),
                         PARSE_DONE);
        assert_str(head.method, str_of(good[i]));
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_line_refused(arena_printf(&arena, "%s / HTTP/1.1", bad[i]).data, 400);
        assert_string_equal(head.reason, "client sent invalid method");
    }
}

static void garbage_is_refused_before_its_line_ends(void **state)
{
    assert_refused("\x16\x03\x01", 400); /* a TLS ClientHello */
    assert_refused("hello", 400);
    assert_refused("GET\tx", 400);
    assert_refused("GE{", 400);
    assert_int_equal(parse("GE"), PARSE_MORE);
    assert_int_equal(parse("GET"), PARSE_MORE);
    assert_int_equal(parse("GET\r"), PARSE_MORE);
    assert_int_equal(parse("GET /anything at all"), PARSE_MORE);
}

static void versions(void **state)
{
    static const struct {
        const char *text;
        unsigned version;
    } good[] = {{"HTTP/1.0", 10}, {"HTTP/1.1", 11},  {"HTTP/1.2", 11},
                {"HTTP/1.9", 11}, {"HTTP/1.10", 11}, {"HTTP/1.99", 11}};
    static const char *const bad[] = {"HTTP/0.9",   "HTTP/01.1",  "HTTP/1",
                                      "HTTP/1.",    "HTTP/.1",    "HTTP/1,1",
                                      "HTTP/1.1.1", "HTTP/1.x",   "HTTP/x.1",
                                      "HTTP/1.1x",  "HTTP/1.100", "HTTP/1.18446744073709551617",
                                      "http/1.1",   "Http/1.1",   "HTTPS/1.1",
                                      "HTTP 1.1",   "HTTP/",      "HTTP/ 1.1",
                                      "HTTP/+1.1",  "HTTP/1.-1",  "SIP/2.0",
                                      "x"};

    for (size_t i = 0; i < COUNT(good); i++) {
        assert_int_equal(parse_line(arena_printf(&arena, "GET / %s", good[i].text).data),
                         PARSE_DONE);
        assert_int_equal(head.version, good[i].version);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_line_refused(arena_printf(&arena, "GET / %s", bad[i]).data, 400);
    }
    assert_line_refused("GET / HTTP/2.0", 505);
    assert_line_refused("GET / HTTP/3.1", 505);
    assert_line_refused("GET / HTTP/99.9", 505);
    assert_refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                   400); /* HTTP/2's preface on a plain port: as nginx answers it */
    assert_line_refused("GET / HTTP/2.0", 505);
    assert_line_refused("GET / HTTP/3", 505);
    assert_line_refused("GET / HTTP/1000000000000000000001.1", 505);
}

static void a_line_without_version_is_all_of_a_request(void **state)
{
    assert_int_equal(parse("GET /a\r\nHost: b\r\n\r\n"), PARSE_DONE);
    assert_int_equal(head.version, 9);
    assert_int_equal(head.size, 8);
    assert_int_equal(fields.count, 0);
    assert_text(head.target, "/a");
    assert_int_equal(parse("GET /a  \r\n"), PARSE_DONE);
    assert_int_equal(head.version, 9);
    assert_refused("POST /a\r\n", 400);
    assert_refused("HEAD /\r\n", 400);
    assert_refused("GET\r\n", 400);
    assert_refused("GET \r\n", 400);
}

static void blanks_between_the_parts(void **state)
{
    assert_int_equal(parse_line("GET   /a    HTTP/1.1"), PARSE_DONE);
    assert_text(head.target, "/a");
    assert_int_equal(parse_line("GET /a HTTP/1.1  "), PARSE_DONE);
    assert_line_refused(" GET / HTTP/1.1", 400);
    assert_line_refused("GET /a b HTTP/1.1", 400);
    assert_line_refused("GET /a\tHTTP/1.1", 400);
    assert_line_refused("GET\t/a HTTP/1.1", 400);
    assert_line_refused("GET /a HTTP/1.1\t", 400);
    assert_line_refused("GET /a\tb HTTP/1.1", 400);
}

static void empty_lines_before_a_request_are_skipped(void **state)
{
    assert_int_equal(parse("\r\n\r\n\nGET / HTTP/1.0\r\n\r\n"), PARSE_DONE);
    assert_int_equal(head.size, 18);
    assert_int_equal(head.end, 5 + 18);
    assert_text(head.line, "GET / HTTP/1.0");
    assert_int_equal(parse("\r\n\r"), PARSE_MORE);
    assert_int_equal(parse(""), PARSE_MORE);
    limits.head_max = 8;
    assert_int_equal(parse("\r\n\r\n\r\n"), PARSE_MORE);
    assert_refused("\r\n\r\n\r\n\r\n\r\n", 400);
}

static void control_bytes(void **state)
{
    for (unsigned c = 0; c < 256; c++) {
        char text[] = "GET /a?b HTTP/1.1\r\nHost: a\r\n\r\n";
        text[6] = (char) c;
        enum parse_result result = parse_str((struct str){text, sizeof(text) - 1});

        if (c == '\n') {
            assert_int_equal(result, PARSE_DONE); /* "GET /a" is a request of 0.9 */
            assert_int_equal(head.version, 9);
        } else {
            /* A space makes "b HTTP/1.1" the version. */
            assert_int_equal(result, c <= 32 || c == 127 ? PARSE_BAD : PARSE_DONE);
        }
    }
}

static void a_bare_carriage_return(void **state)
{
    assert_refused("GET / HTTP/1.1\rHost: a\r\n\r\n", 400);
    assert_refused("GET /\r HTTP/1.1\r\nHost: a\r\n\r\n", 400);
    assert_refused("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", 400);
    assert_refused("GET \r/", 400);
}

static void a_bare_line_feed_ends_a_line(void **state)
{
    assert_int_equal(parse("GET / HTTP/1.1\nHost: a\n\n"), PARSE_DONE);
    assert_int_equal(head.size, 24);
    assert_int_equal(fields.count, 1);
}

static void absolute_form(void **state)
{
    assert_int_equal(parse_line("GET http://Example.ORG:8080/a?b HTTP/1.1"), PARSE_DONE);
    assert_text(head.scheme, "http");
    assert_text(head.authority, "Example.ORG:8080");
    assert_text(head.path, "/a?b");
    assert_text(head.target, "http://Example.ORG:8080/a?b");
    assert_int_equal(parse_line("GET https://a HTTP/1.1"), PARSE_DONE);
    assert_text(head.authority, "a");
    assert_int_equal(head.path.len, 0);
    assert_int_equal(parse_line("GET http://a?b=c HTTP/1.1"), PARSE_DONE);
    assert_text(head.authority, "a");
    assert_text(head.path, "?b=c");
    assert_int_equal(parse_line("GET coap+tcp://[::1]:5683/ HTTP/1.1"), PARSE_DONE);
    assert_text(head.scheme, "coap+tcp");
    assert_text(head.authority, "[::1]:5683");

    static const char *const bad[] = {"http:///a",  "http://", "http:/a",    "http:a", "http",
                                      "//a/b",      "*",       "a/b",        "?a",     "#",
                                      "1http://a/", "://a/",   "ht_tp://a/", "\x80"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (bad[i][0] != '/') {
            assert_line_refused(arena_printf(&arena, "GET %s HTTP/1.1", bad[i]).data, 400);
        }
    }
    assert_int_equal(parse_line("GET //a/b HTTP/1.1"), PARSE_DONE);
    assert_text(head.path, "//a/b");
}

static void authority_form_is_for_connect(void **state)
{
    assert_int_equal(parse_line("CONNECT example.org:443 HTTP/1.1"), PARSE_DONE);
    assert_text(head.authority, "example.org:443");
    assert_line_refused("GET example.org:443 HTTP/1.1", 400);
}

static void a_long_line(void **state)
{
    char text[512];

    memset(text, 'a', sizeof(text));
    memcpy(text, "GET /", 5);
    limits.line_max = 100;
    /* Told as soon as it is too long, whether or not its end is there. */
    assert_int_equal(parse_str((struct str){text, 100}), PARSE_MORE);
    assert_refused_str(((struct str){text, 101}), 414);
    assert_int_equal(head.line.len, 100);
    /* Its end counts. */
    memcpy(text + 89, " HTTP/1.0\r\n\r\n", 13);
    assert_int_equal(parse_str((struct str){text, 102}), PARSE_DONE);
    assert_int_equal(head.line.len, 98);
    memcpy(text + 90, "a HTTP/1.0\r\n\r\n", 14);
    assert_refused_str(((struct str){text, 104}), 414);
}

/* A prefix of a good head is never refused, and never taken for a whole one. */
static void cut_anywhere_it_waits_for_more(void **state)
{
    static const char *const heads[] = {
        "\r\nGET http://example.org/a?b HTTP/1.1\r\nHost: example.org\r\nX-Long:  a \t b \r\nEmpty:\r\n\r\n",
        "POST /a HTTP/1.0\nContent-Length: 5\n\n",
        "CONNECT a:443 HTTP/1.1\r\n\r\n",
    };

    for (size_t i = 0; i < COUNT(heads); i++) {
        struct str whole = str_of(heads[i]);
        for (size_t n = 0; n < whole.len; n++) {
            assert_int_equal(parse_str(str_head(whole, n)), PARSE_MORE);
        }
        assert_int_equal(parse_str(whole), PARSE_DONE);
        assert_int_equal(head.end, whole.len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        head_test(the_usual_line),
        head_test(methods),
        head_test(garbage_is_refused_before_its_line_ends),
        head_test(versions),
        head_test(a_line_without_version_is_all_of_a_request),
        head_test(blanks_between_the_parts),
        head_test(empty_lines_before_a_request_are_skipped),
        head_test(control_bytes),
        head_test(a_bare_carriage_return),
        head_test(a_bare_line_feed_ends_a_line),
        head_test(absolute_form),
        head_test(authority_form_is_for_connect),
        head_test(a_long_line),
        head_test(cut_anywhere_it_waits_for_more),
    };

    return cmocka_run_group_tests_name("http/request_line", tests, NULL, NULL);
}
