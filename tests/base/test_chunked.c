/* Tests of the chunked decoder (RFC 9112, 7.1): however the input is cut, the same comes out; what
 * is doubtful is refused. */
#include "base/unit.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/chunked.h"

/* What decoding a text gave. */
struct outcome {
    struct buf body;
    enum chunked_result result; /* MORE, LAST or BAD */
    size_t used;                /* bytes taken */
};

static struct outcome outcome;

/* Decodes in pieces of `step` bytes, each of them in memory of its own size. */
static void decode(struct str text, size_t step)
{
    struct chunked chunked = {0};

    outcome.body.len = 0;
    outcome.result = CHUNKED_MORE;
    outcome.used = 0;
    while (outcome.used < text.len && outcome.result == CHUNKED_MORE) {
        struct str part = str_head(str_skip(text, outcome.used), step);
        char *memory = malloc(part.len);
        struct str input = {memory, part.len};
        struct str data = STR_NONE;

        assert_non_null(memory);
        memcpy(memory, part.data, part.len);
        while ((outcome.result = chunked_decode(&chunked, &input, &data)) == CHUNKED_DATA) {
            assert_true(data.len != 0);
            buf_append(&outcome.body, data);
        }
        if (outcome.result == CHUNKED_MORE) {
            assert_int_equal(input.len, 0);
        }
        outcome.used += part.len - input.len;
        free(memory);
    }
}

static int tear_down(void **state)
{
    buf_free(&outcome.body);
    return 0;
}

static void assert_body(const char *text, const char *body, const char *rest)
{
    struct str input = str_of(text);

    for (size_t step = 1; step <= input.len; step++) {
        decode(input, step);
        assert_int_equal(outcome.result, CHUNKED_LAST);
        assert_str(buf_str(&outcome.body), str_of(body));
        assert_str(str_skip(input, outcome.used), str_of(rest));
    }
}

static void assert_bad(struct str input)
{
    for (size_t step = 1; step <= input.len; step++) {
        decode(input, step);
        if (outcome.result != CHUNKED_BAD) {
            fail_msg("\"%.*s\" was not refused", STR_ARG(input));
        }
    }
}

static void chunks(void **state)
{
    assert_body("5\r\nhello\r\n0\r\n\r\n", "hello", "\r\n");
    assert_body("1\r\na\r\n2\r\nbc\r\n0\r\n", "abc", "");
    assert_body("0\r\n\r\n", "", "\r\n");
    assert_body("00000000000000a\r\n0123456789\r\n000\r\n", "0123456789", "");
    assert_body(
        "aB\r\n"
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234"
        "5678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
        "0\r\n0\r\nA: b\r\n\r\n",
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234"
        "5678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
        "0",
        "A: b\r\n\r\n");
}

static void data_may_hold_anything(void **state)
{
    static const char input[] = "8\r\n\0\r\n0\r\n\r\n\r\n0\r\n";

    decode((struct str){input, sizeof(input) - 1}, sizeof(input));
    assert_int_equal(outcome.result, CHUNKED_LAST);
    assert_str(buf_str(&outcome.body), ((struct str){"\0\r\n0\r\n\r\n", 8}));
}

static void what_is_not_whole_waits(void **state)
{
    struct str whole = STR("5;a=b\r\nhello\r\n0\r\n");

    for (size_t n = 1; n < whole.len; n++) {
        decode(str_head(whole, n), n);
        assert_int_equal(outcome.result, CHUNKED_MORE);
        assert_int_equal(outcome.used, n);
    }
}

static void extensions(void **state)
{
    assert_body("1;a\r\nx\r\n0;b=c;d=\"e f\"\r\n", "x", "");
    assert_body("1 \r\nx\r\n0\t; a\r\n", "x", "");
    assert_bad(STR("1;a\rb\r\nx\r\n0\r\n"));
    assert_bad(STR("1;a\nx\r\n0\r\n"));
    assert_bad((struct str){"1;a\0b\r\n", 7});
    assert_bad(STR("1;\x7f\r\n"));
}

static void bad_sizes(void **state)
{
    static const char *const bad[] = {"\r\n",
                                      "\n",
                                      ";a\r\n",
                                      " 1\r\n",
                                      "-1\r\n",
                                      "+1\r\n",
                                      "0x1\r\n",
                                      "g\r\n",
                                      "1g\r\n",
                                      "1.0\r\n",
                                      "1\n",
                                      "1\r\r\n",
                                      "1\rx",
                                      "1,2\r\n",
                                      "0000000000000001\r\n",
                                      "ffffffffffffffff\r\n",
                                      "10000000000000000\r\n",
                                      "\x80\r\n",
                                      "5\r\nhello0\r\n",
                                      "5\r\nhello\n0\r\n",
                                      "5\r\nhello\r0\r\n",
                                      "5\r\nhello\r\n\r\n",
                                      "5\r\nhello!\r\n"};

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_bad(str_of(bad[i]));
    }
    assert_bad((struct str){"1\0\r\n", 4});
    /* The largest that is taken is far from an overflow. */
    decode(STR("fffffffffffffff\r\nabc"), 100);
    assert_int_equal(outcome.result, CHUNKED_MORE);
    assert_text(buf_str(&outcome.body), "abc");
}

static void one_long_extension(void **state)
{
    struct buf text = {0};

    buf_append(&text, STR("1;"));
    for (unsigned i = 0; i < CHUNK_EXTENSION_MAX; i++) {
        buf_append(&text, STR("x"));
    }
    size_t len = text.len;
    buf_append(&text, STR("\r\na\r\n0\r\n"));
    decode(buf_str(&text), text.len);
    assert_int_equal(outcome.result, CHUNKED_LAST);
    text.len = len;
    buf_append(&text, STR("x"));
    decode(buf_str(&text), text.len);
    assert_int_equal(outcome.result, CHUNKED_BAD);
    buf_free(&text);
}

static void many_extensions(void **state)
{
    struct buf text = {0};

    for (unsigned i = 0; i < CHUNK_EXTENSIONS_MAX / 100; i++) {
        buf_append(&text, STR("1;"));
        for (unsigned j = 0; j < 100; j++) {
            buf_append(&text, STR("x"));
        }
        buf_append(&text, STR("\r\na\r\n"));
    }
    size_t len = text.len;
    buf_append(&text, STR("0\r\n"));
    decode(buf_str(&text), text.len);
    assert_int_equal(outcome.result, CHUNKED_LAST);
    text.len = len;
    buf_printf(&text, "1;%0100d\r\na\r\n", 0);
    decode(buf_str(&text), text.len);
    assert_int_equal(outcome.result, CHUNKED_BAD);
    buf_free(&text);
}

static void nothing_comes_after_the_last_chunk(void **state)
{
    struct chunked chunked = {0};
    struct str input = STR("0\r\n");
    struct str data;

    assert_int_equal(chunked_decode(&chunked, &input, &data), CHUNKED_LAST);
    input = STR("1\r\n");
    assert_int_equal(chunked_decode(&chunked, &input, &data), CHUNKED_BAD);
}

#define chunked_test(function) cmocka_unit_test_teardown(function, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        chunked_test(chunks),
        chunked_test(data_may_hold_anything),
        chunked_test(what_is_not_whole_waits),
        chunked_test(extensions),
        chunked_test(bad_sizes),
        chunked_test(one_long_extension),
        chunked_test(many_extensions),
        chunked_test(nothing_comes_after_the_last_chunk),
    };

    return cmocka_run_group_tests_name("http/chunked", tests, NULL, NULL);
}
