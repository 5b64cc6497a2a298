/* Tests of header lines (RFC 9112, 5): what is taken, what is dropped, what is refused. */
#include "http/head.h"

/* Header lines behind a good request line. */
static struct str with_line(struct str lines)
{
    return arena_concat(&arena, STR("GET / HTTP/1.1\r\n"), lines);
}

static enum parse_result parse_lines(const char *lines)
{
    return parse_str(with_line(str_of(lines)));
}

#define assert_lines_refused(lines, wanted)                                                        \
    do {                                                                                           \
        struct str text_ = with_line(str_of(lines));                                               \
        assert_refused_str(text_, wanted);                                                         \
        assert_true(head.is_line_done);                                                            \
    } while (0)

static void assert_field(unsigned index, const char *name, const char *value)
{
    assert_true(index < fields.count);
    assert_str(fields.items[index].name, str_of(name));
    assert_str(fields.items[index].value, str_of(value));
}

static void names_and_values(void **state)
{
    assert_int_equal(
        parse_lines("Host: a\r\nx-1:b\r\nEmpty:\r\nBlank: \t \r\nTwo:  a \t b  \r\nX: a:b\r\n\r\n"),
        PARSE_DONE);
    assert_int_equal(fields.count, 6);
    assert_field(0, "Host", "a");
    assert_field(1, "x-1", "b");
    assert_field(2, "Empty", "");
    assert_field(3, "Blank", "");
    assert_field(4, "Two", "a \t b");
    assert_field(5, "X", "a:b");
    assert_int_equal(fields.items[0].id, FIELD_HOST);
    assert_int_equal(fields.items[1].id, FIELD_OTHER);
    assert_int_equal(head.headers, 6);
    assert_int_equal(head.dropped, 0);
}

static void bytes_above_127_are_values(void **state)
{
    assert_int_equal(parse_lines("X: \xc3\xa4\xff\r\n\r\n"), PARSE_DONE);
    assert_field(0, "X", "\xc3\xa4\xff");
}

static void a_space_before_the_colon(void **state)
{
    assert_lines_refused("Host : a\r\n\r\n", 400);
    assert_lines_refused("Host\t: a\r\n\r\n", 400);
    assert_lines_refused("Content-Length : 5\r\n\r\n", 400);
    assert_lines_refused("Ho st: a\r\n\r\n", 400);
    assert_lines_refused(" : a\r\n\r\n", 400);
    limits.ignore_invalid = false;
    assert_lines_refused("Host : a\r\n\r\n", 400);
}

static void folded_lines(void **state)
{
    assert_lines_refused("Host: a\r\n b\r\n\r\n", 400);
    assert_lines_refused("Host: a\r\n\tb: c\r\n\r\n", 400);
    assert_lines_refused(" Host: a\r\n\r\n", 400); /* a folded request line, in effect */
    assert_lines_refused("Host: a\r\n \r\n\r\n", 400);
    assert_lines_refused("Host: a\r\n ", 400); /* told at once */
}

static void lines_without_a_name(void **state)
{
    assert_lines_refused(": a\r\n\r\n", 400);
    assert_lines_refused("Host\r\n\r\n", 400);
    assert_lines_refused("\x01\r\n\r\n", 400);
    assert_lines_refused("Host: a\r\nGET / HTTP/1.1\r\n\r\n", 400);
}

static void control_bytes_in_values(void **state)
{
    for (unsigned c = 0; c < 256; c++) {
        char lines[] = "Host: a_b\r\nX: y\r\n\r\n";
        lines[7] = (char) c;
        enum parse_result result = parse_str(with_line((struct str){lines, sizeof(lines) - 1}));

        if (c == '\n') {
            assert_int_equal(result, PARSE_BAD); /* "b" is a line without a colon */
        } else if ((c < 32 && c != '\t') || c == 127) {
            assert_int_equal(result, PARSE_BAD);
            assert_int_equal(head.status, 400);
        } else {
            assert_int_equal(result, PARSE_DONE);
            assert_int_equal(fields.count, 2);
        }
    }
}

static void control_bytes_in_names(void **state)
{
    for (unsigned c = 0; c < 256; c++) {
        char lines[] = "X-_Y: a\r\n\r\n";
        lines[2] = (char) c;
        enum parse_result result = parse_str(with_line((struct str){lines, sizeof(lines) - 1}));

        assert_int_equal(result, c <= 32 || c == 127 ? PARSE_BAD : PARSE_DONE);
    }
}

static void a_bare_carriage_return(void **state)
{
    assert_lines_refused("Host: a\rX: b\r\n\r\n", 400);
    assert_lines_refused("Host: a\r\r\n\r\n", 400);
    assert_lines_refused("Host: a\r\n\rX: b\r\n\r\n", 400);
    assert_lines_refused("\rHost: a\r\n\r\n", 400);
    assert_int_equal(parse_lines("Host: a\r"), PARSE_MORE);
    assert_int_equal(parse_lines("Host: a\r\n\r"), PARSE_MORE);
}

static void odd_names_are_dropped(void **state)
{
    static const char *const odd[] = {"a_b", "a.b", "a/b",      "\"a\"", "a(b)",
                                      "a@b", "{",   "\xc3\xa4", "a,b",   "a=b"};

    for (size_t i = 0; i < COUNT(odd); i++) {
        assert_int_equal(parse_lines(arena_printf(&arena, "Host: a\r\n%s: c\r\n\r\n", odd[i]).data),
                         PARSE_DONE);
        assert_int_equal(fields.count, 1);
        assert_int_equal(head.headers, 2);
        assert_int_equal(head.dropped, 1);
        assert_str(head.dropped_lines[0], arena_printf(&arena, "%s: c", odd[i]));
    }
}

static void odd_names_are_kept_when_asked(void **state)
{
    limits.ignore_invalid = false;
    assert_int_equal(parse_lines("a.b: c\r\na_b: d\r\n\r\n"), PARSE_DONE);
    assert_int_equal(fields.count, 2);
    assert_int_equal(head.dropped, 0);
}

static void underscores_may_be_usual(void **state)
{
    limits.underscores = true;
    assert_int_equal(parse_lines("a_b: c\r\na.b: d\r\n\r\n"), PARSE_DONE);
    assert_int_equal(fields.count, 1);
    assert_field(0, "a_b", "c");
    assert_int_equal(head.dropped, 1);
}

static void many_lines(void **state)
{
    struct buf lines = {0};

    for (unsigned i = 0; i < limits.headers_max; i++) {
        buf_printf(&lines, "X%u: %u\r\n", i, i);
    }
    size_t all = lines.len;
    buf_append(&lines, STR("\r\n"));
    assert_int_equal(parse_str(with_line(buf_str(&lines))), PARSE_DONE);
    assert_int_equal(fields.count, limits.headers_max);
    lines.len = all;
    buf_append(&lines, STR("One-More: x\r\n\r\n"));
    assert_refused_str(with_line(buf_str(&lines)), 400);
    /* Those that are dropped count, too. */
    lines.len = all;
    buf_append(&lines, STR("One_more: x\r\n\r\n"));
    assert_refused_str(with_line(buf_str(&lines)), 400);
    buf_free(&lines);
}

static void a_long_line(void **state)
{
    char lines[300];

    memset(lines, 'a', sizeof(lines));
    memcpy(lines, "X:", 2);
    /* Its end counts. */
    memcpy(lines + limits.line_max - 2, "\r\n\r\n", 4);
    assert_int_equal(parse_str(with_line((struct str){lines, limits.line_max + 2})), PARSE_DONE);
    memcpy(lines + limits.line_max - 2, "a\r\n\r\n", 5);
    assert_refused_str(with_line((struct str){lines, limits.line_max + 3}), 494);
    memset(lines + limits.line_max - 2, 'a', 5);
    assert_int_equal(parse_str(with_line((struct str){lines, limits.line_max})), PARSE_MORE);
    assert_refused_str(with_line((struct str){lines, limits.line_max + 1}), 494);
    assert_true(head.is_line_done);
}

/* What the log shows of a line that is too long is no more than was sent. */
static void a_line_that_is_too_long_and_short(void **state)
{
    limits.line_max = 20;
    assert_refused_str(with_line(STR("X: 90123456789012345678")), 494);
}

static void a_large_head(void **state)
{
    struct buf lines = {0};

    limits.headers_max = 100;
    while (lines.len <= limits.head_max) {
        buf_printf(&lines, "X: %*d\r\n", 100, 1);
    }
    assert_refused_str(with_line(buf_str(&lines)), 494);
    /* A request line takes of the same room. */
    limits.head_max = 60;
    assert_int_equal(parse_lines("A: 34567890123456789012345678901234567890\r\n\r\n"), PARSE_DONE);
    assert_lines_refused("A: 345678901234567890123456789012345678901234\r\n\r\n", 494);
    buf_free(&lines);
}

/* By the limits of the test. */
static const struct field_reading *reading_into(struct fields *found)
{
    static struct field_reading reading;

    reading = (struct field_reading){.limits = &limits, .arena = &arena, .fields = found};
    return &reading;
}

static void trailers(void **state)
{
    uint32_t used = 0;
    struct head unused = {0};
    struct fields found = {0};
    struct str input = exact_copy(STR("A: b\r\nC: d\r\n\r\nGET /"));

    assert_int_equal(fields_parse(input, reading_into(&found), &unused, &used), PARSE_DONE);
    assert_int_equal(used, 14);
    assert_int_equal(found.count, 2);
    input = exact_copy(STR("\r\n"));
    assert_int_equal(fields_parse(input, reading_into(&found), &unused, &used), PARSE_DONE);
    assert_int_equal(used, 2);
    input = exact_copy(STR("A: b\r\n b"));
    assert_int_equal(fields_parse(input, reading_into(&found), &unused, &used), PARSE_BAD);
    input = exact_copy(STR("A: b\r\n"));
    assert_int_equal(fields_parse(input, reading_into(&found), &unused, &used), PARSE_MORE);
}

/* A bare LF ends no line of a chunked body (RFC 9112, 7.1). */
static void trailers_with_a_bare_line_feed(void **state)
{
    static const char *const bad[] = {"A: b\n\r\n", "A: b\r\n\n", "\n", "A: b\r\nC: d\n"};
    uint32_t used = 0;

    limits.wants_crlf = true;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct head unused = {0};
        struct fields found = {0};
        assert_int_equal(fields_parse(exact_copy(str_of(bad[i])), reading_into(&found), &unused,
                                      &used),
                         PARSE_BAD);
    }
}

static const char *const in_parts[] = {
    "A: b\r\nC: d\r\n\r\nmore",
    "\r\nmore",
    "A: b\n\nmore",
    "A: b\r\n b\r\n",
    "A: b\r\n\tb\r\n",
    " A: b\r\n",
    "A: b\rC: d\r\n\r\n",
    "A: b\r\r\n",
    "A: \x01\r\n\r\n",
    "A: b\x7f",
    "A: a\tb\t\r\n\r\n",
    "A b\r\nC: d\r\n",
    "A : b\r\n",
    ": b\r\n",
    "a_b: c\r\nA: b\r\n\r\n",
    "1: \r\n2: \r\n3: \r\n4: \r\n5: \r\n6: \r\n7: \r\n8: \r\n9: \r\n10: \r\n11: \r\n\r\n",
    "Long: 0123456789012345678901234567890123456789012345678901234567890123456789\r\n\r\n",
    "A: 01234567890123456789012345678\r\nB: 01234567890123456789012345678\r\n"
    "C: 01234567890123456789012345678\r\nD: 01234567890123456789012345678\r\n\r\n",
};

/* However lines are cut, the same is said of them, at the same byte. */
static void lines_in_parts(void **state)
{
    limits.line_max = 60;
    limits.head_max = 120;
    for (size_t i = 0; i < sizeof(in_parts) / sizeof(in_parts[0]); i++) {
        struct str whole = str_of(in_parts[i]);
        struct fields_scan scan = {0};
        struct fields parts = {0};
        enum parse_result result = PARSE_MORE;

        for (size_t n = 0; n <= whole.len && result == PARSE_MORE; n++) {
            struct head expected = {0};
            struct head found = {0};
            struct fields once = {0};
            uint32_t used = 0;
            uint32_t wanted = 0;
            struct str input = exact_copy(str_head(whole, n));

            result = fields_parse(input, reading_into(&once), &expected, &wanted);
            assert_int_equal(fields_parse_parts(&scan, input, reading_into(&parts), &found, &used),
                             result);
            if (result != PARSE_MORE) {
                assert_int_equal(used, wanted);
                assert_int_equal(parts.count, once.count);
                assert_int_equal(found.status, expected.status);
                assert_int_equal(found.dropped, expected.dropped);
            }
        }
    }
}

/* Trailers that came byte by byte were parsed for each byte, into the request's memory. */
static void parts_take_memory_once(void **state)
{
    struct buf lines = {0};
    struct fields_scan scan = {0};
    struct fields found = {0};
    struct head unused = {0};
    uint32_t used;

    limits.line_max = limits.head_max = 8192;
    limits.headers_max = 1000;
    for (int i = 0; i < 600; i++) {
        buf_append(&lines, STR("A: bcdefg\r\n"));
    }
    for (size_t n = 1; n <= lines.len; n++) {
        assert_int_equal(fields_parse_parts(&scan, str_head(buf_str(&lines), n),
                                            reading_into(&found), &unused, &used),
                         PARSE_MORE);
    }
    buf_append(&lines, STR("\r\n"));
    assert_int_equal(fields_parse_parts(&scan, buf_str(&lines), reading_into(&found), &unused,
                                        &used),
                     PARSE_DONE);
    assert_int_equal(found.count, 600);
    assert_true(arena.used < (size_t) 256 * 1024);
    buf_free(&lines);
}

static void content_lengths(void **state)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "-1",
                                      "+1",
                                      "0x10",
                                      "1.0",
                                      "1,1",
                                      "1 1",
                                      "1a",
                                      "a",
                                      "9223372036854775808",
                                      "18446744073709551616",
                                      "99999999999999999999999999",
                                      "1\t",
                                      "٣"};
    int64_t length = 0;

    assert_true(content_length_parse(STR("0"), &length));
    assert_int_equal(length, 0);
    assert_true(content_length_parse(STR("00042"), &length));
    assert_int_equal(length, 42);
    assert_true(content_length_parse(STR("9223372036854775807"), &length));
    assert_true(length == INT64_MAX);
    length = 7;
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_false(content_length_parse(str_of(bad[i]), &length));
        assert_int_equal(length, 7);
    }
}

static void hosts(void **state)
{
    static const struct {
        const char *text, *host, *port;
    } good[] = {
        {"example.org", "example.org", ""},
        {"Example.ORG:80", "example.org", "80"},
        {"a.", "a", ""},
        {"a.:81", "a", "81"},
        {"a:", "a", ""},
        {"127.0.0.1:65535", "127.0.0.1", "65535"},
        {"[::1]", "[::1]", ""},
        {"[FE80::1]:8080", "[fe80::1]", "8080"},
        {"a_b-c", "a_b-c", ""},
        {"a%20b", "a%20b", ""},
        {"xn--bcher-kva.example", "xn--bcher-kva.example", ""},
    };
    static const char *const bad[] =
        {"",        ".",          ":",      ":80",  "a/b",     "a b",     "a\tb",
         "a..b",    "..",         "user@a", "a:x",  "a:-1",    "a:65536", "a:99999999999999999999",
         "a:80:80", "a?b",        "a#b",    "a\\b", "[::1",    "[",       "[]x",
         "[::1]a",  "a\x7f",      "a\"b",   "<a>",  "[::1]:x", "a,b/",    "\xc3\xa4",
         "a\x80",   "[ab..cd::1]"};
    struct str host;
    struct str port;

    for (size_t i = 0; i < COUNT(good); i++) {
        assert_true(authority_parse(&arena, exact_copy(str_of(good[i].text)), &host, &port));
        assert_str(host, str_of(good[i].host));
        assert_str(port, str_of(good[i].port));
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (authority_parse(&arena, exact_copy(str_of(bad[i])), &host, &port)) {
            fail_msg("\"%s\" was taken", bad[i]);
        }
    }
    assert_false(authority_parse(&arena, exact_copy((struct str){"a\0b", 3}), &host, &port));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        head_test(names_and_values),
        head_test(bytes_above_127_are_values),
        head_test(a_space_before_the_colon),
        head_test(folded_lines),
        head_test(lines_without_a_name),
        head_test(control_bytes_in_values),
        head_test(control_bytes_in_names),
        head_test(a_bare_carriage_return),
        head_test(odd_names_are_dropped),
        head_test(odd_names_are_kept_when_asked),
        head_test(underscores_may_be_usual),
        head_test(many_lines),
        head_test(a_long_line),
        head_test(a_line_that_is_too_long_and_short),
        head_test(a_large_head),
        head_test(trailers),
        head_test(trailers_with_a_bare_line_feed),
        head_test(lines_in_parts),
        head_test(parts_take_memory_once),
        head_test(content_lengths),
        head_test(hosts),
    };

    return cmocka_run_group_tests_name("http/header_lines", tests, NULL, NULL);
}
