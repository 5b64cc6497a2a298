/* Tests of Redis' protocol: where replies end, in whatever pieces they come, their values, and
 * commands. */
#include "base/unit.h"

#include "store/resp.h"

enum { SIZE_MOST = 4096 };

/* Gives the size of the first reply in the text; 0: it is not whole; -1: it is bad. The pieces are
 * of `step` bytes. */
static int size_of(const char *text, size_t step)
{
    struct resp_scan scan = {.at = 0};
    struct str input = str_of(text);

    for (size_t length = step; length < input.len + step; length += step) {
        switch (resp_scan(&scan, str_head(input, length), SIZE_MOST)) {
        case RESP_WHOLE:
            return (int) scan.at;
        case RESP_BAD:
            return -1;
        case RESP_MORE:
            break;
        }
    }
    return 0;
}

static void replies_end(void **state)
{
    static const struct {
        const char *text;
        int size;
    } replies[] = {
        {"+OK\r\n+OK\r\n", 5},
        {"-ERR no\r\n", 9},
        {":-12\r\n", 6},
        {"$5\r\nhello\r\n", 11},
        {"$2\r\n\r\n\r\n", 8},
        {"$0\r\n\r\n", 6},
        {"$-1\r\n", 5},
        {"*-1\r\n", 5},
        {"*0\r\n", 4},
        {"_\r\n", 3},
        {"#t\r\n", 4},
        {",1.5\r\n", 6},
        {"(123456789012345678901234567890\r\n", 33},
        {"=6\r\ntxt:ab\r\n", 12},
        {"!3\r\nERR\r\n", 9},
        {"*2\r\n*1\r\n:1\r\n~2\r\n:2\r\n:3\r\n:4", 24},
        {"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n:3", 24},
        {">2\r\n+a\r\n:1\r\n", 12},
        {"|1\r\n+ttl\r\n:3\r\n:9\r\n", 18},
        {"*1\r\n|1\r\n+ttl\r\n:3\r\n:9\r\n", 22},
        {"", 0},
        {"+OK", 0},
        {"+OK\r", 0},
        {"$5\r\nhell", 0},
        {"$5\r\nhello", 0},
        {"*2\r\n:1\r\n", 0},
        {"|1\r\n+ttl\r\n:3\r\n", 0},
        {"HTTP/1.1 200 OK\r\n", -1},
        {"\r\n", -1},
        {"$5\r\nhelloXX", -1},
        {"$-2\r\n", -1},
        {"$x\r\n", -1},
        {"$\r\n", -1},
        {"$4097\r\n", -1},
        {"$99999999999999999999999\r\n", -1},
        {"*99999999\r\n", -1},
        {"%999999\r\n", -1},
        {"%-1\r\n", -1},
        {"$?\r\n", -1},
        {"*?\r\n", -1},
        {"+a\rb\r\n", -1},
    };

    for (size_t i = 0; i < COUNT(replies); i++) {
        for (size_t step = 1; step < 40; step++) {
            assert_int_equal(size_of(replies[i].text, step), replies[i].size);
        }
    }
}

/* However deep a reply is nested, it is bounded by its values and its size. */
static void nested_replies_are_bounded(void **state)
{
    char text[2 * SIZE_MOST];

    for (size_t i = 0; i + 4 <= sizeof(text); i += 4) {
        memcpy(text + i, "*1\r\n", 4);
    }
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(size_of(text, 100), -1);
    memset(text, 'x', sizeof(text) - 1);
    text[0] = '+';
    assert_int_equal(size_of(text, 100), -1);
}

static void values(void **state)
{
    struct str reply = STR(
        "*6\r\n+OK\r\n|1\r\n+a\r\n*1\r\n:1\r\n:-7\r\n$3\r\na\r\n\r\n_\r\n#t\r\n=6\r\ntxt:ab\r\n");
    struct resp_value value;
    struct str text;
    int64_t number;

    assert_int_equal(resp_next_list(&reply), 6);
    assert_true(resp_next_string(&reply, &text) && str_is(text, "OK"));
    assert_true(resp_next_integer(&reply, &number) && number == -7);
    assert_true(resp_next_string(&reply, &text) && str_is(text, "a\r\n"));
    assert_true(resp_next(&reply, &value) && value.type == RESP_NULL);
    assert_true(resp_next(&reply, &value) && value.type == RESP_BOOLEAN && value.number == 1);
    assert_true(resp_next(&reply, &value) && str_is(value.text, "ab"));
    assert_false(resp_next(&reply, &value));
}

static void values_are_skipped_with_what_is_in_them(void **state)
{
    struct str reply = STR("*3\r\n%1\r\n+a\r\n*2\r\n:1\r\n:2\r\n>1\r\n:3\r\n!3\r\nERR\r\n:5\r\n");
    int64_t number;

    assert_int_equal(resp_next_list(&reply), 3);
    assert_true(resp_skip(&reply, 3));
    assert_true(resp_next_integer(&reply, &number) && number == 5);
    assert_false(resp_skip(&reply, 1));
}

static void commands(void **state)
{
    const struct str words[] = {STR("SET"), STR("a b"), STR("")};
    struct arena arena;

    arena_init(&arena);
    struct str bytes = resp_command(&arena, words, COUNT(words));
    assert_true(str_is(bytes, "*3\r\n$3\r\nSET\r\n$3\r\na b\r\n$0\r\n\r\n"));
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_end), cmocka_unit_test(nested_replies_are_bounded),
        cmocka_unit_test(values),      cmocka_unit_test(values_are_skipped_with_what_is_in_them),
        cmocka_unit_test(commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
