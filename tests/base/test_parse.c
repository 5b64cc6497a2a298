/* Tests of numbers, sizes and times. What counts as valid was compared with Debian's nginx. */
#include "base/unit.h"

#include "base/parse.h"

#define UNTOUCHED 0xdeadbeef

/* A text with its value; bad ones have UNTOUCHED. */
struct example {
    struct str text;
    uint64_t value;
};

static void check(bool (*parse)(struct str, uint64_t *), const struct example *examples, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t value = UNTOUCHED;
        bool is_good = parse(examples[i].text, &value);
        if (is_good != (examples[i].value != UNTOUCHED) || value != examples[i].value) {
            fail_msg("\"%.*s\" gives %d, %llu", STR_ARG(examples[i].text), is_good,
                     (unsigned long long) value);
        }
    }
}

static void unsigned_numbers(void **state)
{
    static const struct example examples[] = {
        {STR_INIT("0"), 0},
        {STR_INIT("007"), 7},
        {STR_INIT("18446744073709551615"), UINT64_MAX},
        {STR_INIT("18446744073709551616"), UNTOUCHED},
        {STR_INIT("99999999999999999999999"), UNTOUCHED},
        {STR_INIT(""), UNTOUCHED},
        {STR_INIT("-1"), UNTOUCHED},
        {STR_INIT("+1"), UNTOUCHED},
        {STR_INIT(" 1"), UNTOUCHED},
        {STR_INIT("1 "), UNTOUCHED},
        {STR_INIT("1\0"), UNTOUCHED},
        {STR_INIT("1a"), UNTOUCHED},
    };
    check(parse_uint, examples, COUNT(examples));
    uint64_t value = UNTOUCHED;
    assert_false(parse_uint(STR_NONE, &value));
}

static void signed_numbers(void **state)
{
    int64_t value = 5;

    assert_true(parse_int(STR("-9223372036854775808"), &value));
    assert_true(value == INT64_MIN);
    assert_true(parse_int(STR("9223372036854775807"), &value));
    assert_true(value == INT64_MAX);
    value = 5;
    assert_false(parse_int(STR("9223372036854775808"), &value));
    assert_false(parse_int(STR("-9223372036854775809"), &value));
    assert_false(parse_int(STR("-"), &value));
    assert_false(parse_int(STR("--1"), &value));
    assert_false(parse_int(STR_NONE, &value));
    assert_int_equal(value, 5);
}

static void hex_numbers(void **state)
{
    static const struct example examples[] = {
        {STR_INIT("0"), 0},
        {STR_INIT("fF"), 255},
        {STR_INIT("0000000000000000000001"), 1},
        {STR_INIT("ffffffffffffffff"), UINT64_MAX},
        {STR_INIT("10000000000000000"), UNTOUCHED},
        {STR_INIT(""), UNTOUCHED},
        {STR_INIT("0x1"), UNTOUCHED},
        {STR_INIT("g"), UNTOUCHED},
        {STR_INIT("1 "), UNTOUCHED},
    };
    check(parse_hex, examples, COUNT(examples));
}

static void sizes(void **state)
{
    static const struct example examples[] = {
        {STR_INIT("1k"), 1024},
        {STR_INIT("1K"), 1024},
        {STR_INIT("2m"), 2097152},
        {STR_INIT("2M"), 2097152},
        {STR_INIT("0"), 0},
        {STR_INIT("9223372036854775807"), INT64_MAX},
        {STR_INIT("9223372036854775808"), UNTOUCHED},
        {STR_INIT("9007199254740991k"), 9007199254740991ULL * 1024},
        {STR_INIT("9007199254740992k"), UNTOUCHED},
        {STR_INIT("1g"), UNTOUCHED},
        {STR_INIT("1kk"), UNTOUCHED},
        {STR_INIT("k"), UNTOUCHED},
        {STR_INIT(""), UNTOUCHED},
        {STR_INIT("1b"), UNTOUCHED},
        {STR_INIT(" 1k"), UNTOUCHED},
        {STR_INIT("-1"), UNTOUCHED},
    };
    check(parse_size, examples, COUNT(examples));
}

static void offsets(void **state)
{
    int64_t value = 5;

    assert_true(parse_offset(STR("10G"), &value));
    assert_true(value == 10LL << 30);
    assert_true(parse_offset(STR("8589934591g"), &value));
    assert_true(value == 8589934591LL << 30);
    value = 5;
    assert_false(parse_offset(STR("8589934592g"), &value));
    assert_false(parse_offset(STR("1t"), &value));
    assert_false(parse_offset(STR("-1"), &value));
    assert_int_equal(value, 5);
}

static void milliseconds(void **state)
{
    static const struct example examples[] = {
        {STR_INIT("1"), 1000},
        {STR_INIT("0"), 0},
        {STR_INIT("1ms"), 1},
        {STR_INIT("1w"), 604800000},
        {STR_INIT("1h30m"), 5400000},
        {STR_INIT("1h 30m"), 5400000},
        {STR_INIT("1h  30m"), 5400000},
        {STR_INIT("1d1h1m1s1ms"), 90061001},
        {STR_INIT("1m 5"), 65000},
        {STR_INIT("1m5"), 65000},
        {STR_INIT(" 1"), 1000},
        {STR_INIT("1 "), 1000},
        {STR_INIT("9223372036854775"), 9223372036854775000ULL},
        {STR_INIT("9223372036854776"), UNTOUCHED},
        {STR_INIT("9223372036854775807"), UNTOUCHED},
        {STR_INIT("9223372036854775s 808ms"), UNTOUCHED},
        {STR_INIT("30m 1h"), UNTOUCHED},
        {STR_INIT("1h 1h"), UNTOUCHED},
        {STR_INIT("100ms 1s"), UNTOUCHED},
        {STR_INIT("5 1m"), UNTOUCHED},
        {STR_INIT("1y"), UNTOUCHED},
        {STR_INIT("1M"), UNTOUCHED},
        {STR_INIT("1H"), UNTOUCHED},
        {STR_INIT("1hh"), UNTOUCHED},
        {STR_INIT("1 s"), UNTOUCHED},
        {STR_INIT("s"), UNTOUCHED},
        {STR_INIT("1.5s"), UNTOUCHED},
        {STR_INIT("-1"), UNTOUCHED},
        {STR_INIT(""), UNTOUCHED},
        {STR_INIT("  "), UNTOUCHED},
    };
    check(parse_msec, examples, COUNT(examples));
}

static void seconds(void **state)
{
    static const struct example examples[] = {
        {STR_INIT("1"), 1},
        {STR_INIT("1y"), 31536000},
        {STR_INIT("1M"), 2592000},
        {STR_INIT("1y 1M 1w 1d 1h 1m 1s"), 31536000 + 2592000 + 604800 + 86400 + 3600 + 61},
        {STR_INIT("9223372036854775807"), INT64_MAX},
        {STR_INIT("9223372036854775808"), UNTOUCHED},
        {STR_INIT("292471208677y"), 292471208677ULL * 31536000},
        {STR_INIT("292471208678y"), UNTOUCHED},
        {STR_INIT("1ms"), UNTOUCHED},
        {STR_INIT("1M 1y"), UNTOUCHED},
        {STR_INIT("1m\0"), UNTOUCHED},
        {STR_INIT("1\xff"), UNTOUCHED},
    };
    check(parse_sec, examples, COUNT(examples));
}

static bool parse_thousandths(struct str s, uint64_t *out)
{
    return parse_fixed_point(s, 3, out);
}

static void fixed_point(void **state)
{
    static const struct example examples[] = {
        {STR_INIT("1.5"), 1500},
        {STR_INIT("1"), 1000},
        {STR_INIT("0.001"), 1},
        {STR_INIT(".5"), 500},
        {STR_INIT("1."), 1000},
        {STR_INIT("9223372036854775.807"), INT64_MAX},
        {STR_INIT("9223372036854775.808"), UNTOUCHED},
        {STR_INIT("18446744073709551616"), UNTOUCHED},
        {STR_INIT("1.2345"), UNTOUCHED},
        {STR_INIT("1.2.3"), UNTOUCHED},
        {STR_INIT("."), UNTOUCHED},
        {STR_INIT(""), UNTOUCHED},
        {STR_INIT("-1"), UNTOUCHED},
        {STR_INIT("1,5"), UNTOUCHED},
    };
    check(parse_thousandths, examples, COUNT(examples));
}

static void numbers_are_written_as_they_are_read(void **state)
{
    static const struct example examples[] = {
        {STR_INIT("0"), 0},
        {STR_INIT("9"), 9},
        {STR_INIT("10"), 10},
        {STR_INIT("1234567890"), 1234567890},
        {STR_INIT("18446744073709551615"), UINT64_MAX},
    };
    for (size_t i = 0; i < COUNT(examples); i++) {
        char text[20];
        assert_str(str_from(text, format_uint(text, examples[i].value)), examples[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsigned_numbers),
        cmocka_unit_test(signed_numbers),
        cmocka_unit_test(hex_numbers),
        cmocka_unit_test(sizes),
        cmocka_unit_test(offsets),
        cmocka_unit_test(milliseconds),
        cmocka_unit_test(seconds),
        cmocka_unit_test(fixed_point),
        cmocka_unit_test(numbers_are_written_as_they_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
