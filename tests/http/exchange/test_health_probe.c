/* What the probes of health checks send and understand. */
#include "base/unit.h"

#include "http/exchange/probe/probe.h"

static struct arena arena;

static int setup(void **state)
{
    arena_init(&arena);
    return 0;
}

static int teardown(void **state)
{
    arena_free(&arena);
    return 0;
}

/* The answer in one piece, with its end; *rest gets what was not used. */
static enum probe_step read_whole(struct probe_parser *parser, struct str input, struct str *rest)
{
    enum probe_step step;

    parser->arena = &arena;
    step = probe_parse(parser, &input, true);
    *rest = input;
    return step;
}

static void assert_bad(const char *text, bool is_cgi, const char *reason)
{
    struct probe_parser parser = {.is_cgi = is_cgi, .wants_body = true};
    struct str rest;

    assert_int_equal(read_whole(&parser, str_of(text), &rest), PROBE_BAD);
    assert_string_equal(parser.reason, reason);
}

/* ---- HTTP */

static void test_a_length(void **state)
{
    struct probe_parser parser = {.wants_body = true};
    struct str rest;

    assert_int_equal(read_whole(&parser,
                                STR("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
                                    "HTTP/1.1 500"),
                                &rest),
                     PROBE_DONE);
    assert_int_equal(parser.response.status, 200);
    assert_int_equal(parser.response.version, 11);
    assert_text(parser.response.body, "hello");
    assert_text(fields_find(&parser.response.fields, STR("x-a"))->value, "b");
    assert_true(parser.may_keep);
    assert_text(rest, "HTTP/1.1 500");
}

static void test_a_status_line_alone(void **state)
{
    struct probe_parser parser = {.wants_body = true};
    struct str rest;

    assert_int_equal(read_whole(&parser, STR("HTTP/1.0 404\r\n\r\n"), &rest), PROBE_DONE);
    assert_int_equal(parser.response.status, 404);
    assert_false(parser.may_keep);
}

static void test_bare_newlines(void **state)
{
    struct probe_parser parser = {.wants_body = true};
    struct str rest;

    assert_int_equal(read_whole(&parser, STR("HTTP/1.0 200 OK\nA: b\n\nbody"), &rest), PROBE_DONE);
    assert_text(parser.response.body, "body");
}

static void test_chunks_and_trailers(void **state)
{
    struct probe_parser parser = {.wants_body = true};
    struct str rest;

    assert_int_equal(read_whole(&parser,
                                STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                                    "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\nmore"),
                                &rest),
                     PROBE_DONE);
    assert_text(parser.response.body, "abcde");
    assert_true(parser.may_keep);
    assert_text(rest, "more");
}

static void test_a_head_is_enough(void **state)
{
    struct probe_parser parser = {0};
    struct str rest;

    assert_int_equal(read_whole(&parser, STR("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nab"),
                                &rest),
                     PROBE_DONE);
    assert_false(parser.may_keep);
    assert_text(rest, "ab");
}

static void test_the_end_is_waited_for_to_keep_the_connection(void **state)
{
    struct probe_parser parser = {.arena = &arena, .wants_end = true};
    struct str input = STR("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");

    assert_int_equal(probe_parse(&parser, &input, false), PROBE_MORE);
    assert_int_equal(input.len, 0);
    input = STR("cd");
    assert_int_equal(probe_parse(&parser, &input, false), PROBE_DONE);
    assert_true(parser.may_keep);
    assert_int_equal(parser.response.body.len, 0);
}

static void test_byte_by_byte(void **state)
{
    struct str text = STR("HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 201 Made\r\n"
                          "Content-Length: 2\r\n\r\nok");
    struct probe_parser parser = {.arena = &arena, .wants_body = true};
    enum probe_step step = PROBE_MORE;
    size_t used = 0;

    for (size_t given = 1; given <= text.len; given++) {
        struct str input = {text.data + used, given - used};
        assert_int_equal(step, PROBE_MORE);
        step = probe_parse(&parser, &input, false);
        used = given - input.len;
    }
    assert_int_equal(step, PROBE_DONE);
    assert_int_equal(parser.response.status, 201);
    assert_null(fields_find(&parser.response.fields, STR("Link")));
    assert_text(parser.response.body, "ok");
}

static void test_no_body(void **state)
{
    static const char *const heads[] = {"HTTP/1.1 204 No\r\n\r\n",
                                        "HTTP/1.1 304 No\r\nContent-Length: 10\r\n\r\n"};

    for (size_t i = 0; i < COUNT(heads); i++) {
        struct probe_parser parser = {.arena = &arena, .wants_body = true};
        struct str input = str_of(heads[i]);
        assert_int_equal(probe_parse(&parser, &input, false), PROBE_DONE);
        assert_true(parser.may_keep);
    }
}

static void test_connection_close_is_heard(void **state)
{
    struct probe_parser parser = {.wants_body = true};
    struct str rest;

    read_whole(&parser, STR("HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n"),
               &rest);
    assert_false(parser.may_keep);
    parser = (struct probe_parser){.wants_body = true};
    read_whole(&parser,
               STR("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"),
               &rest);
    assert_true(parser.may_keep);
}

static void test_a_long_body_is_cut(void **state)
{
    struct probe_parser parser = {.arena = &arena, .wants_body = true};
    char block[8192];
    struct str input = STR("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
    unsigned blocks = 0;

    memset(block, 'x', sizeof(block));
    assert_int_equal(probe_parse(&parser, &input, false), PROBE_MORE);
    do {
        input = (struct str){block, sizeof(block)};
        blocks++;
    } while (probe_parse(&parser, &input, false) == PROBE_MORE);
    assert_int_equal(blocks * sizeof(block), PROBE_BODY_MAX);
    assert_int_equal(parser.response.body.len, PROBE_BODY_MAX);
    assert_false(parser.may_keep);
}

static void test_what_is_no_answer(void **state)
{
    assert_bad("SSH-2.0-OpenSSH\r\n", false, "status line");
    assert_bad("HTTP/1.1 20 OK\r\n\r\n", false, "status line");
    assert_bad("HTTP/1.1 2000 OK\r\n\r\n", false, "status line");
    assert_bad("HTTP/1.1 099 OK\r\n\r\n", false, "status line");
    assert_bad("HTTP/x.1 200 OK\r\n\r\n", false, "status line");
    assert_bad("HTTP/1.1 200 OK\r\n nothing\r\n\r\n", false, "header");
    assert_bad("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", false, "header");
    assert_bad("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", false, "header \"Content-Length\"");
    assert_bad("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", false,
               "header \"Transfer-Encoding\"");
    assert_bad("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", false,
               "header \"Transfer-Encoding\"");
    assert_bad("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", false,
               "body, which is not chunked as announced");
}

static void test_what_is_cut_short(void **state)
{
    assert_bad("", false, "answer, which was cut short");
    assert_bad("HTTP/1.1 200 OK\r\nA: b\r\n", false, "answer, which was cut short");
    assert_bad("HTTP/1.1 100 Continue\r\n\r\n", false, "answer, which was cut short");
    assert_bad("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", false,
               "answer, which was cut short");
    assert_bad("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", false,
               "answer, which was cut short");
}

static void test_a_head_without_end(void **state)
{
    static char head[PROBE_HEAD_MAX + 1];
    struct probe_parser parser = {.arena = &arena};
    struct str input = {head, sizeof(head)};

    memset(head, 'a', sizeof(head));
    memcpy(head, "HTTP/1.1 200 ", 13);
    assert_int_equal(probe_parse(&parser, &input, false), PROBE_BAD);
    assert_string_equal(parser.reason, "header, which is too large");
}

static void test_interim_answers_without_end(void **state)
{
    struct probe_parser parser = {.arena = &arena};
    unsigned given = 0;
    struct str input;

    do {
        input = STR("HTTP/1.1 102 Processing\r\n\r\n");
        given++;
    } while (probe_parse(&parser, &input, false) == PROBE_MORE && given < 1000);
    assert_int_equal(given, 17);
    assert_string_equal(parser.reason, "header, after too many of 1xx");
}

/* ---- CGI */

static unsigned status_of(struct probe_parser *parser, const char *text)
{
    struct str rest;

    assert_int_equal(read_whole(parser, str_of(text), &rest), PROBE_DONE);
    return parser->response.status;
}

static unsigned cgi_status(const char *text)
{
    return status_of(&(struct probe_parser){.is_cgi = true}, text);
}

static unsigned cgi_status_unless_told(const char *text)
{
    return status_of(&(struct probe_parser){.is_cgi = true, .is_200_unless_set = true}, text);
}

static void test_status_of_cgi(void **state)
{
    assert_int_equal(cgi_status("Content-Type: text/plain\r\n\r\nbody"), 200);
    assert_int_equal(cgi_status("Status: 404 Not Found\nContent-Type: text/plain\n\n"), 404);
    assert_int_equal(cgi_status("Location: /x\r\n\r\n"), 302);
    assert_int_equal(cgi_status("Location: /x\r\nStatus: 201\r\n\r\n"), 201);
    assert_int_equal(cgi_status_unless_told("Location: /x\r\n\r\n"), 200);
    assert_int_equal(cgi_status_unless_told("Location: /x\r\nStatus: 201\r\n\r\n"), 201);
    assert_bad("Status: ok\r\n\r\n", true, "header \"Status\"");
    assert_bad("Status: 2000\r\n\r\n", true, "header \"Status\"");
    assert_bad("Content-Type: text/plain\r\n", true, "answer, which was cut short");
}

/* ---- FastCGI */

static void test_a_fastcgi_request(void **state)
{
    static const char expected[] = "\1\1\0\1\0\10\0\0"
                                   "\0\1\0\0\0\0\0\0"
                                   "\1\4\0\1\0\20\0\0"
                                   "\10\6SOMENAMEvalues"
                                   "\1\4\0\1\0\0\0\0"
                                   "\1\5\0\1\0\0\0\0";
    struct vec params = {0};
    struct str out;

    *vec_add(&params, &arena, struct probe_param) =
        (struct probe_param){STR("SOMENAME"), STR("values")};
    assert_true(probe_fastcgi_request(&arena, &params, false, &out));
    assert_int_equal(out.len, sizeof(expected) - 1);
    assert_memory_equal(out.data, expected, out.len);
    assert_true(probe_fastcgi_request(&arena, &params, true, &out));
    assert_int_equal(out.data[10], 1);
}

static void test_long_fastcgi_values(void **state)
{
    struct vec params = {0};
    struct probe_param *param = vec_add(&params, &arena, struct probe_param);
    struct str out;

    param->name = STR("A");
    param->value = (struct str){arena_zalloc(&arena, 65537), 65536};
    assert_true(probe_fastcgi_request(&arena, &params, false, &out));
    assert_int_equal((unsigned char) out.data[20],
                     0xff); /* the first of two records: 65535 bytes */
    assert_int_equal((unsigned char) out.data[21], 0xff);
    assert_int_equal(out.data[24], 1);
    assert_int_equal((unsigned char) out.data[25], 0x80); /* a length of four bytes */
    assert_int_equal(out.len, 16 + 8 + 65535 + 8 + 7 + 8 + 8);
    param->value.len = 65537;
    assert_false(probe_fastcgi_request(&arena, &params, false, &out));
}

static enum probe_step take_records(struct probe_records *records, struct str bytes, size_t piece)
{
    enum probe_step step = PROBE_MORE;

    records->arena = &arena;
    while (bytes.len != 0 && step == PROBE_MORE) {
        struct str input = str_head(bytes, piece);
        bytes = str_skip(bytes, input.len);
        step = probe_records_take(records, &input);
    }
    return step;
}

#define OUTPUT "\1\6\0\1\0\3\5\0abc\0\0\0\0\0"
#define ERRORS "\1\7\0\1\0\2\0\0xx"
#define LAST_OUTPUT "\1\6\0\1\0\0\0\0"
#define END_OK "\1\3\0\1\0\10\0\0\0\0\0\0\0\0\0\0"

static void test_fastcgi_output(void **state)
{
    const struct str answer = STR(OUTPUT ERRORS OUTPUT LAST_OUTPUT END_OK);

    for (size_t piece = 1; piece <= answer.len; piece++) {
        struct probe_records records = {0};
        assert_int_equal(take_records(&records, answer, piece), PROBE_DONE);
        assert_text(records.output, "abcabc");
    }
}

static void test_bad_fastcgi_records(void **state)
{
    static const struct {
        struct str bytes;
        const char *reason;
    } cases[] = {
        {STR_INIT("\2\6\0\1\0\0\0\0"), "FastCGI record"},
        {STR_INIT("\1\6\0\2\0\0\0\0"), "FastCGI record"},
        {STR_INIT("\1\11\0\1\0\0\0\0"), "type of a FastCGI record"},
        {STR_INIT("\1\3\0\1\0\7\0\0"), "FastCGI record of the request's end"},
        {STR_INIT("\1\3\0\1\0\10\0\0\0\0\0\0\2\0\0\0"), "FastCGI status: it was refused"},
        {STR_INIT("HTTP/1.1 400 Bad"), "FastCGI record"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct probe_records records = {0};
        assert_int_equal(take_records(&records, cases[i].bytes, 100), PROBE_BAD);
        assert_string_equal(records.reason, cases[i].reason);
    }
}

static void test_fastcgi_output_is_bounded(void **state)
{
    struct probe_records records = {0};

    for (int i = 0; i < 200000; i++) {
        assert_int_equal(take_records(&records, STR(OUTPUT), 100), PROBE_MORE);
    }
    assert_int_equal(records.output.len, PROBE_HEAD_MAX + PROBE_BODY_MAX);
    assert_int_equal(take_records(&records, STR(END_OK), 100), PROBE_DONE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_length),
        TEST(test_a_status_line_alone),
        TEST(test_bare_newlines),
        TEST(test_chunks_and_trailers),
        TEST(test_a_head_is_enough),
        TEST(test_the_end_is_waited_for_to_keep_the_connection),
        TEST(test_byte_by_byte),
        TEST(test_no_body),
        TEST(test_connection_close_is_heard),
        TEST(test_a_long_body_is_cut),
        TEST(test_what_is_no_answer),
        TEST(test_what_is_cut_short),
        TEST(test_a_head_without_end),
        TEST(test_interim_answers_without_end),
        TEST(test_status_of_cgi),
        TEST(test_a_fastcgi_request),
        TEST(test_long_fastcgi_values),
        TEST(test_fastcgi_output),
        TEST(test_bad_fastcgi_records),
        TEST(test_fastcgi_output_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
