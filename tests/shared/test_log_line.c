/* Tests of values in access log lines: each escape, at every length and place. */
#include "base/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "shared/log/format.h"

static struct buf buf;
static struct arena arena;

static int set_up(void **state)
{
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    buf_free(&buf);
    return 0;
}

/* The value as a line has it. The input is a copy of its own, so that a byte read too far is seen.
 */
static struct str put(struct str value, enum log_escape escape)
{
    struct log_line line = {.buf = &buf, .escape = escape, .fixed = LOG_WORD};
    char *copy = malloc(value.len == 0 ? 1 : value.len);

    assert_non_null(copy);
    if (value.len != 0) {
        memcpy(copy, value.data, value.len);
    }
    buf.len = 0;
    char *at = buf_reserve(&buf, LOG_WORD);
    line.end = buf.data + buf.capacity;
    at = log_put_value(&line, at, (struct str){copy, value.len});
    free(copy);
    return str_from(buf.data, at);
}

static void every_byte_at_every_place(void **state)
{
    char text[40];

    for (size_t len = 1; len <= sizeof(text); len++) {
        for (size_t position = 0; position < len; position++) {
            for (int byte = 0; byte < 256; byte++) {
                memset(text, 'a', len);
                text[position] = (char) byte;
                struct str value = {text, len};
                struct str expected = escape_str(&arena, value, ESCAPE_LOG);
                assert_str(put(value, LOG_ESCAPE_DEFAULT), expected);
                arena_free(&arena);
            }
        }
    }
}

static void each_escape(void **state)
{
    struct str value = STR("a\"\\\n\x7f\xc3\xa4 z");

    assert_text(put(value, LOG_ESCAPE_DEFAULT), "a\\x22\\x5C\\x0A\\x7F\\xC3\\xA4 z");
    assert_text(put(value, LOG_ESCAPE_UNSET), "a\\x22\\x5C\\x0A\\x7F\\xC3\\xA4 z");
    assert_text(put(value, LOG_ESCAPE_JSON), "a\\\"\\\\\\n\x7f\xc3\xa4 z");
    assert_str(put(value, LOG_ESCAPE_NONE), value);
    assert_text(put(value, LOG_ESCAPE_ASCII), "a\\x22\\x5C\\x0A\\x7F\xc3\xa4 z");
    assert_text(put(value, LOG_ESCAPE_UNPRINTABLE), "a\"\\\\x0A\\x7F\\xC3\\xA4 z");
}

static void an_empty_value_is_empty(void **state)
{
    for (int escape = LOG_ESCAPE_DEFAULT; escape <= LOG_ESCAPE_UNSET; escape++) {
        assert_int_equal(put(STR_NONE, (enum log_escape) escape).len, 0);
    }
}

static void long_values_make_the_buffer_grow(void **state)
{
    size_t len = 100000;
    char *text = malloc(len);

    assert_non_null(text);
    memset(text, '"', len);
    struct str line = put((struct str){text, len}, LOG_ESCAPE_DEFAULT);
    assert_int_equal(line.len, 4 * len);
    assert_int_equal(memcmp(line.data + line.len - 8, "\\x22\\x22", 8), 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_at_every_place),
        cmocka_unit_test(each_escape),
        cmocka_unit_test(an_empty_value_is_empty),
        cmocka_unit_test(long_values_make_the_buffer_grow),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
