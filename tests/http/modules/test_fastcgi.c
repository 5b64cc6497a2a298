/* Tests of FastCGI: records and pairs as bytes, and answers however they are cut, on links of their
 * own and shared ones. */
#include "base/unit.h"

#include <stdarg.h>

#include "event/loop.h"
#include "http/fastcgi.h"

static struct told seen;
static struct buf text; /* what the backend sends */

static int set_up(void **state)
{
    log_is_starting = false;
    const struct loop_options options = {.events_per_turn = 8, .log = log_main};

    return loop_init(&options) ? 0 : -1;
}

static int tear_down(void **state)
{
    told_free(&seen);
    buf_free(&text);
    loop_destroy();
    return 0;
}

/* ---- making what a backend sends ---- */

static void add_record(unsigned type, unsigned id, struct str content, unsigned padding)
{
    static const char zeros[255];
    char header[RECORD_HEADER_SIZE];

    record_write(header, (enum record_type) type, (uint16_t) id, (uint16_t) content.len);
    header[6] = (char) padding;
    buf_append(&text, (struct str){header, sizeof(header)});
    buf_append(&text, content);
    buf_append(&text, (struct str){zeros, padding});
}

static void add_stdout(const char *content)
{
    add_record(RECORD_STDOUT, 1, str_of(content), 0);
}

static void add_end(unsigned protocol_status)
{
    char content[8] = {0};

    content[4] = (char) protocol_status;
    add_record(RECORD_END_REQUEST, 1, (struct str){content, 8}, 0);
}

#define HEAD "Content-Type: text/plain\r\n\r\n"

/* Runs the text in every way of cutting, on both kinds of links; each must say the same. */
static void assert_told(const struct fastcgi_case *what, bool closes, int end, const char *body)
{
    for (unsigned shared = 0; shared < 2; shared++) {
        struct fastcgi_case own = *what;

        if (shared && (own.asks || own.keep == KEEP_CONN_OFF)) {
            continue;
        }
        own.is_shared = shared;
        for (size_t step = 1; step <= text.len; step += step < 64 ? 1 : 61) {
            fastcgi_tell(&own, buf_str(&text), step, closes, &seen);
            assert_int_equal(seen.end, end);
            assert_str(buf_str(&seen.body), str_of(body));
        }
    }
    text.len = 0;
}

static const struct fastcgi_case usual = {.keep = KEEP_CONN_AUTO};
static const struct fastcgi_case kept = {.keep = KEEP_CONN_ON};
static const struct fastcgi_case closed = {.keep = KEEP_CONN_OFF};

static bool was_logged(const char *line)
{
    return str_find(buf_str(&seen.log), str_of(line)) != NULL;
}

/* ---- bytes ---- */

static void records_have_their_bytes(void **state)
{
    char bytes[RECORD_BEGIN_SIZE];

    assert_ptr_equal(record_write_begin(bytes, 0x102, true), bytes + sizeof(bytes));
    assert_memory_equal(bytes, "\1\1\1\2\0\10\0\0\0\1\1\0\0\0\0\0", sizeof(bytes));
    struct record record = record_read("\1\6\377\376\1\2\7\0");
    assert_int_equal(record.type, RECORD_STDOUT);
    assert_int_equal(record.id, 0xfffe);
    assert_int_equal(record.content, 0x102);
    assert_int_equal(record.padding, 7);
}

static void ids_change_in_whole_records(void **state)
{
    add_record(RECORD_PARAMS, 1, STR("abc"), 5);
    add_record(RECORD_STDIN, 1, STR_NONE, 0);
    buf_append(&text, STR("\1\5\0\1\0\7\0")); /* a part of a header: left alone */
    records_set_id(text.data, text.len, 0x203);
    assert_int_equal(record_read(text.data).id, 0x203);
    assert_int_equal(record_read(text.data + 16).id, 0x203);
    assert_int_equal(text.data[24 + 3], 1);
    text.len = 0;
}

static void assert_pair(size_t name_length, size_t value_length)
{
    char *name = malloc(name_length + 1), *value = malloc(value_length + 1);
    char *at = malloc(8 + name_length + value_length);

    memset(name, 'n', name_length);
    memset(value, 'v', value_length);
    char *end = pair_write(at, (struct str){name, name_length}, (struct str){value, value_length});
    size_t frame = (name_length < 128 ? 1 : 4) + (value_length < 128 ? 1 : 4);
    assert_int_equal(end - at, frame + name_length + value_length);
    struct str rest = str_from(at, end), got_name, got_value;
    assert_true(pair_read(&rest, &got_name, &got_value));
    assert_true(str_equal(got_name, str_from(name, name + name_length)));
    assert_true(str_equal(got_value, str_from(value, value + value_length)));
    assert_int_equal(rest.len, 0);
    /* Cut short anywhere it is no pair. */
    for (size_t length = 0; length < (size_t) (end - at); length++) {
        rest = (struct str){at, length};
        assert_false(pair_read(&rest, &got_name, &got_value));
    }
    free(name);
    free(value);
    free(at);
}

static void pairs_come_back(void **state)
{
    assert_pair(0, 0);
    assert_pair(1, 127);
    assert_pair(127, 128);
    assert_pair(128, 1);
    assert_pair(300, 70000);
}

static void lengths_beyond_the_end_are_no_pair(void **state)
{
    struct str rest = STR("\377\377\377\377\377\377\377\377ab"), name, value;

    assert_false(pair_read(&rest, &name, &value));
}

static void get_values_is_a_whole_record(void **state)
{
    struct record record = record_read(get_values_record.data);
    struct str rest = str_skip(get_values_record, RECORD_HEADER_SIZE), name, value;
    unsigned count = 0;

    assert_int_equal(record.type, RECORD_GET_VALUES);
    assert_int_equal(record.id, 0);
    assert_int_equal(record.content, rest.len);
    while (pair_read(&rest, &name, &value)) {
        assert_true(str_starts(name, STR("FCGI_M")));
        assert_int_equal(value.len, 0);
        count++;
    }
    assert_int_equal(count, 3);
    assert_int_equal(rest.len, 0);
}

static void facts_are_numbers(void **state)
{
    char bytes[256];
    char *at = bytes;

    at = pair_write(at, STR("FCGI_MAX_CONNS"), STR("5"));
    at = pair_write(at, STR("SOMETHING"), STR("7"));
    at = pair_write(at, STR("FCGI_MAX_REQS"), STR("99999999999"));
    at = pair_write(at, STR("FCGI_MPXS_CONNS"), STR("1"));
    struct backend_facts facts = facts_read(str_from(bytes, at));
    assert_int_equal(facts.connections_max, 5);
    assert_int_equal(facts.requests_max, 0);
    assert_true(facts.multiplexes);
    facts = facts_read(str_from(bytes, at - 1)); /* the last pair is cut */
    assert_int_equal(facts.connections_max, 5);
    assert_false(facts.multiplexes);
    facts = facts_read(STR_NONE);
    assert_int_equal(facts.connections_max, 0);
}

/* ---- answers ---- */

static void a_small_answer(void **state)
{
    add_stdout(HEAD "hello");
    add_record(RECORD_STDOUT, 1, STR_NONE, 0);
    add_end(0);
    assert_told(&usual, false, TOLD_WHOLE, "hello");
    assert_int_equal(seen.status, 200);
}

static void head_and_body_in_many_records(void **state)
{
    add_stdout("Status: 404 No");
    add_record(RECORD_STDOUT, 1, STR("t Found\r\nContent-Ty"), 3);
    add_record(RECORD_STDERR, 1, STR("a word\n"), 1);
    add_stdout("pe: a/b\r\n");
    add_stdout("\r");
    add_record(RECORD_STDOUT, 1, STR("\nbo"), 255);
    add_record(RECORD_STDERR, 1, STR("another\n"), 0);
    add_stdout("dy");
    add_end(0);
    assert_told(&usual, false, TOLD_WHOLE, "body");
    assert_int_equal(seen.status, 404);
    assert_true(was_logged("FastCGI sent in stderr: \"a word\""));
    assert_true(was_logged("FastCGI sent in stderr: \"another\""));
}

static void a_kept_link_is_clean(void **state)
{
    add_stdout(HEAD "x");
    add_end(0);
    fastcgi_tell(&kept, buf_str(&text), 4096, false, &seen);
    assert_int_equal(seen.end, TOLD_WHOLE);
    assert_true(seen.is_reusable);
    add_record(RECORD_STDOUT, 1, STR("unasked"), 0);
    fastcgi_tell(&kept, buf_str(&text), 4096, false, &seen);
    assert_false(seen.is_reusable);
    fastcgi_tell(&closed, buf_str(&text), 4096, false, &seen);
    assert_int_equal(seen.end, TOLD_WHOLE);
    assert_false(seen.is_reusable);
    text.len = 0;
}

static void end_padding_that_is_to_come_keeps_nothing(void **state)
{
    add_stdout(HEAD "x");
    add_record(RECORD_END_REQUEST, 1, STR("\0\0\0\0\0\0\0\0"), 9);
    fastcgi_tell(&kept, str_head(buf_str(&text), text.len - 4), 4096, false, &seen);
    assert_int_equal(seen.end, TOLD_WHOLE);
    assert_false(seen.is_reusable);
    fastcgi_tell(&kept, buf_str(&text), 4096, false, &seen);
    assert_true(seen.is_reusable);
    text.len = 0;
}

static void too_much_and_too_little(void **state)
{
    add_stdout("Content-Length: 2\r\n\r\nabc");
    add_stdout("defgh");
    add_end(0);
    assert_told(&usual, false, TOLD_WHOLE, "ab");
    assert_true(was_logged("upstream sent more data than specified in \"Content-Length\" header"));
    assert_false(seen.is_reusable);
    add_stdout("Content-Length: 4\r\n\r\nabc");
    add_end(0);
    assert_told(&usual, false, TOLD_BAD, "abc");
    assert_true(was_logged("upstream prematurely closed FastCGI stdout"));
}

static void broken_records(void **state)
{
    buf_append(&text, STR("\2\6\0\1\0\0\0\0"));
    assert_told(&usual, false, TOLD_BAD, "");
    assert_true(was_logged("upstream sent unsupported FastCGI protocol version: 2"));
    add_record(RECORD_STDOUT, 2, STR(HEAD), 0);
    assert_told(&usual, false, TOLD_BAD, "");
    assert_true(was_logged("upstream sent unexpected FastCGI request id low byte: 2"));
    add_record(RECORD_STDOUT, 0x301, STR(HEAD), 0);
    assert_told(&usual, false, TOLD_BAD, "");
    assert_true(was_logged("upstream sent unexpected FastCGI request id high byte: 3"));
    add_record(77, 1, STR("x"), 0);
    assert_told(&usual, false, TOLD_BAD, "");
    assert_true(was_logged("upstream sent invalid FastCGI record type: 77"));
    add_stdout(HEAD "abc");
    add_record(77, 1, STR("x"), 0);
    assert_told(&usual, false, TOLD_BAD, "abc");
    add_stdout(HEAD "abc");
    add_record(RECORD_STDOUT, 1, STR_NONE, 0);
    add_stdout("def");
    add_end(0);
    assert_told(&usual, false, TOLD_BAD, "abc");
    assert_true(was_logged("upstream sent unexpected FastCGI record: 6"));
}

static void ends_before_the_head(void **state)
{
    add_end(0);
    assert_told(&usual, false, TOLD_BAD, "");
    assert_true(was_logged("upstream sent unexpected FastCGI record: 3"));
    add_stdout("Content-Type: x\r\n");
    add_record(RECORD_STDOUT, 1, STR_NONE, 0);
    assert_told(&usual, false, TOLD_BAD, "");
    assert_true(was_logged("upstream prematurely closed FastCGI stdout"));
    add_record(RECORD_END_REQUEST, 1, STR_NONE, 0);
    assert_told(&usual, false, TOLD_BAD, "");
}

static void the_connection_ends_without_end_request(void **state)
{
    add_stdout(HEAD "abc");
    assert_told(&closed, true, TOLD_WHOLE, "abc");
    add_stdout(HEAD "abc");
    assert_told(&kept, true, TOLD_BAD, "abc");
    assert_true(was_logged("upstream prematurely closed connection"));
    add_stdout(HEAD "abc");
    text.len--; /* in the middle of a record it is never right */
    fastcgi_tell(&closed, buf_str(&text), 4096, true, &seen);
    assert_int_equal(seen.end, TOLD_BAD);
    text.len = 0;
}

static void stderr_is_caught_before_the_head_only(void **state)
{
    const struct fastcgi_case what = {.keep = KEEP_CONN_AUTO, .caught = "so bad"};

    add_record(RECORD_STDERR, 1, STR("it is so bad\n"), 0);
    add_stdout(HEAD "abc");
    add_end(0);
    assert_told(&what, false, TOLD_BAD, "");
    add_stdout(HEAD "abc");
    add_record(RECORD_STDERR, 1, STR("it is so bad\n"), 0);
    add_end(0);
    fastcgi_tell(&what, buf_str(&text), 4096, false, &seen);
    assert_int_equal(seen.end, TOLD_WHOLE);
    text.len = 0;
}

static void a_long_body_and_a_long_stderr(void **state)
{
    static char long_text[60000];

    memset(long_text, 'x', sizeof(long_text));
    add_stdout(HEAD);
    for (unsigned i = 0; i < 4; i++) {
        add_record(RECORD_STDOUT, 1, (struct str){long_text, sizeof(long_text)}, i);
        add_record(RECORD_STDERR, 1, (struct str){long_text, sizeof(long_text)}, i);
    }
    add_end(0);
    for (unsigned shared = 0; shared < 2; shared++) {
        for (size_t step = 997; step < 70000; step += 7919) {
            const struct fastcgi_case what = {.keep = KEEP_CONN_AUTO, .is_shared = shared};
            fastcgi_tell(&what, buf_str(&text), step, false, &seen);
            assert_int_equal(seen.end, TOLD_WHOLE);
            assert_int_equal(seen.body.len, 4 * sizeof(long_text));
        }
    }
    text.len = 0;
}

static void a_head_that_is_too_big(void **state)
{
    const struct fastcgi_case what = {.keep = KEEP_CONN_AUTO, .buffer_size = 64};

    add_stdout("X-A: 0123456789012345678901234567890123456789\r\n");
    add_stdout("X-B: 0123456789012345678901234567890123456789\r\n\r\nbody");
    add_end(0);
    assert_told(&what, false, TOLD_BAD, "");
}

static void add_facts(const char *name, const char *value)
{
    char bytes[64];
    char *end = pair_write(bytes, str_of(name), str_of(value));

    add_record(RECORD_GET_VALUES_RESULT, 0, str_from(bytes, end), 0);
}

static void a_first_request_is_kept_for_the_question(void **state)
{
    const struct fastcgi_case what = {.keep = KEEP_CONN_AUTO, .asks = true};

    add_stdout(HEAD "x");
    add_end(0);
    assert_told(&what, false, TOLD_WHOLE, "x");
    assert_true(seen.is_reusable);
    add_facts("FCGI_MAX_CONNS", "4"); /* of a process that is asked in front */
    add_record(RECORD_UNKNOWN_TYPE, 0, STR("\11\0\0\0\0\0\0\0"), 0);
    add_stdout(HEAD "x");
    add_end(0);
    assert_told(&what, false, TOLD_WHOLE, "x");
}

static void facts_that_nobody_asked_for(void **state)
{
    add_facts("FCGI_MAX_CONNS", "4");
    add_stdout(HEAD "x");
    add_end(0);
    fastcgi_tell(&usual, buf_str(&text), 4096, false, &seen);
    assert_int_equal(seen.end, TOLD_BAD);
    assert_true(was_logged("upstream sent invalid FastCGI record type: 10"));
    text.len = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_have_their_bytes),
        cmocka_unit_test(ids_change_in_whole_records),
        cmocka_unit_test(pairs_come_back),
        cmocka_unit_test(lengths_beyond_the_end_are_no_pair),
        cmocka_unit_test(get_values_is_a_whole_record),
        cmocka_unit_test(facts_are_numbers),
        cmocka_unit_test(a_small_answer),
        cmocka_unit_test(head_and_body_in_many_records),
        cmocka_unit_test(a_kept_link_is_clean),
        cmocka_unit_test(end_padding_that_is_to_come_keeps_nothing),
        cmocka_unit_test(too_much_and_too_little),
        cmocka_unit_test(broken_records),
        cmocka_unit_test(ends_before_the_head),
        cmocka_unit_test(the_connection_ends_without_end_request),
        cmocka_unit_test(stderr_is_caught_before_the_head_only),
        cmocka_unit_test(a_long_body_and_a_long_stderr),
        cmocka_unit_test(a_head_that_is_too_big),
        cmocka_unit_test(a_first_request_is_kept_for_the_question),
        cmocka_unit_test(facts_that_nobody_asked_for),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
