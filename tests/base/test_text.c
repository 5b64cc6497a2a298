/* Tests of encodings and escapes. The sets were compared with what Debian's nginx sends and logs.
 */
#include "base/unit.h"

#include <string.h>

#include "base/text.h"

static struct arena arena;

static int set_up(void **state)
{
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    return 0;
}

static void hex_digits_have_their_values(void **state)
{
    const char *digits = "0123456789abcdef";
    size_t count = 0;

    for (int c = 0; c < 256; c++) {
        const char *found = c == 0 ? NULL : strchr(digits, ascii_lower((unsigned char) c));
        assert_int_equal(hex_value[c], found == NULL ? -1 : found - digits);
        count += hex_value[c] >= 0;
    }
    assert_int_equal(count, 22);
    char text[8];
    assert_str(str_from(text, hex_encode(text, "\x00\x1f\xfe\x80", 4)), STR("001ffe80"));
    assert_ptr_equal(hex_encode(text, NULL, 0), text);
    assert_true(hex_decode(STR("001fFe80"), text));
    assert_memory_equal(text, "\x00\x1f\xfe\x80", 4);
    assert_true(hex_decode(STR(""), text));
    assert_false(hex_decode(STR("001"), text));
    assert_false(hex_decode(STR("0g"), text) || hex_decode(STR("g0"), text));
}

static void base64_examples_of_rfc_4648(void **state)
{
    static const struct str pairs[][2] = {
        {STR_INIT(""), STR_INIT("")},
        {STR_INIT("f"), STR_INIT("Zg==")},
        {STR_INIT("fo"), STR_INIT("Zm8=")},
        {STR_INIT("foo"), STR_INIT("Zm9v")},
        {STR_INIT("foob"), STR_INIT("Zm9vYg==")},
        {STR_INIT("fooba"), STR_INIT("Zm9vYmE=")},
        {STR_INIT("foobar"), STR_INIT("Zm9vYmFy")},
        {STR_INIT("\0\xff\xfe\xfb"), STR_INIT("AP/++w==")},
    };
    struct str out;

    for (size_t i = 0; i < COUNT(pairs); i++) {
        assert_str(base64_encode(&arena, pairs[i][0], false), pairs[i][1]);
        assert_true(base64_decode(&arena, pairs[i][1], false, &out));
        assert_str(out, pairs[i][0]);
    }
    assert_text(base64_encode(&arena, STR("\0\xff\xfe\xfb"), true), "AP_--w");
    assert_true(base64_decode(&arena, STR("AP_--w"), true, &out));
    assert_str(out, STR("\0\xff\xfe\xfb"));
    assert_true(base64_decode(&arena, STR("Zg"), false, &out));
    assert_text(out, "f");
}

static void bad_base64_is_refused(void **state)
{
    static const struct str bad[] = {
        STR_INIT("A"),      STR_INIT("AAAAA"), STR_INIT("Z==="),  STR_INIT("Zg="),
        STR_INIT("===="),   STR_INIT("Zg==Z"), STR_INIT("Z=g="),  STR_INIT("Zm 9v"),
        STR_INIT("Zm9v\n"), STR_INIT("-_AA"),  STR_INIT("\0AAA"), STR_INIT("\xffggg"),
        STR_INIT("="),      STR_INIT("=="),
    };
    struct str out = STR("untouched");

    for (size_t i = 0; i < COUNT(bad); i++) {
        if (base64_decode(&arena, bad[i], false, &out)) {
            fail_msg("\"%.*s\" was taken", STR_ARG(bad[i]));
        }
    }
    assert_false(base64_decode(&arena, STR("+/AA"), true, &out));
    assert_text(out, "untouched");
}

static void every_code_point_of_utf8(void **state)
{
    for (uint32_t point = 0; point <= 0x10ffff; point++) {
        char bytes[4];
        size_t len = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        static const unsigned char marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
        uint32_t rest = point;
        for (size_t i = len - 1; i > 0; i--) {
            bytes[i] = (char) (0x80 | (rest & 0x3f));
            rest >>= 6;
        }
        bytes[0] = (char) (marks[len] | rest);
        struct str s = {bytes, len};
        bool is_surrogate = point >= 0xd800 && point <= 0xdfff;
        uint32_t got = utf8_next(&s);
        if (got != (is_surrogate ? UINT32_MAX : point) || s.len != (is_surrogate ? 2 : 0)) {
            fail_msg("U+%04X gives %X, %zu bytes left", point, got, s.len);
        }
    }
}

static void malformed_utf8_counts_byte_by_byte(void **state)
{
    assert_int_equal(utf8_length(STR("\xd0\xbf\xd1\x80")), 2);
    assert_int_equal(utf8_length(STR("a\0b")), 3);
    assert_int_equal(utf8_length(STR_NONE), 0);
    assert_int_equal(utf8_length(STR("\xc0\x80")), 2);         /* overlong */
    assert_int_equal(utf8_length(STR("\xe0\x80\x80")), 3);     /* overlong */
    assert_int_equal(utf8_length(STR("\xf4\x90\x80\x80")), 4); /* above U+10FFFF */
    assert_int_equal(utf8_length(STR("\xe2\x82")), 2);         /* cut */
    assert_int_equal(utf8_length(STR("\xff\xfe")), 2);
    struct str s = STR("\xe2\x82!");
    assert_int_equal(utf8_next(&s), UINT32_MAX);
    assert_int_equal(s.len, 2);
}

/* The bytes that a set changes, in order. */
static struct str changed_by(enum escape_set set, char out[256])
{
    char *at = out;

    for (int c = 0; c < 256; c++) {
        char byte = (char) c;
        if (escape_length((struct str){&byte, 1}, set) != 1) {
            *at++ = byte;
        }
    }
    return str_from(out, at);
}

/* The visible ASCII ones must be these; controls and high bytes are all in or all out. */
static void check_set(enum escape_set set, struct str visible, bool has_controls, bool has_blank,
                      bool has_high)
{
    char bytes[256];
    char expected[256];
    char *at = expected;

    for (int c = 0; c < 256; c++) {
        bool is_in = c < ' '    ? has_controls
                     : c == ' ' ? has_blank
                     : c < 127  ? str_find_char(visible, (char) c) != NULL
                                : has_high;
        if (is_in) {
            *at++ = (char) c;
        }
    }
    assert_str(changed_by(set, bytes), str_from(expected, at));
}

static void escape_sets_are_those_of_nginx(void **state)
{
    check_set(ESCAPE_URI, STR("\"#%<>?\\^`{|}"), true, true, true);
    check_set(ESCAPE_REDIRECT, STR("\"#%"), true, true, true);
    check_set(ESCAPE_ARGS, STR("\"#%&+;<>?\\^`{|}"), true, true, true);
    check_set(ESCAPE_URI_COMPONENT, STR("!\"#$%&'()*+,/:;<=>?@[\\]^`{|}"), true, true, true);
    check_set(ESCAPE_MEMCACHED, STR("%"), true, true, false);
    check_set(ESCAPE_IN_PAGE, STR("\"#%'<>\\^`{|}"), true, true, true);
    check_set(ESCAPE_HTML, STR("<>&\""), false, false, false);
    check_set(ESCAPE_JSON, STR("\"\\"), true, false, false);
    check_set(ESCAPE_LOG, STR("\"\\"), true, false, true);
}

static void escaped_forms(void **state)
{
    assert_text(escape_str(&arena, STR("/a b\xff?\0"), ESCAPE_URI), "/a%20b%FF%3F%00");
    assert_text(escape_str(&arena, STR("a&b=c"), ESCAPE_ARGS), "a%26b=c");
    assert_text(escape_str(&arena, STR("<a href=\"&\">"), ESCAPE_HTML),
                "&lt;a href=&quot;&amp;&quot;&gt;");
    assert_text(escape_str(&arena, STR("\"\\\b\f\n\r\t\v\0\x7f\xe9/"), ESCAPE_JSON),
                "\\\"\\\\\\b\\f\\n\\r\\t\\u000B\\u0000\x7f\xe9/");
    assert_text(escape_str(&arena, STR("a\"\\\n\x7f\xe9"), ESCAPE_LOG),
                "a\\x22\\x5C\\x0A\\x7F\\xE9");
    assert_text(escape_str(&arena, STR_NONE, ESCAPE_LOG), "");
    assert_text(escape_str(&arena, STR("/a\r\nSet-Cookie: x=1 \x7f\xc3%"), ESCAPE_CONTROLS),
                "/a%0D%0ASet-Cookie: x=1 %7F\xc3%");
}

static void length_is_what_is_written(void **state)
{
    char all[256];

    for (int c = 0; c < 256; c++) {
        all[c] = (char) c;
    }
    struct str s = {all, sizeof(all)};
    for (int set = ESCAPE_URI; set <= ESCAPE_LOG; set++) {
        size_t len = escape_length(s, set);
        char *start = arena_text(&arena, len);
        assert_ptr_equal(escape_write(start, s, set), start + len);
        struct str plain = STR("plain");
        assert_ptr_equal(escape_str(&arena, plain, set).data, plain.data);
    }
    /* What percent-encoding wrote, decoding takes back. */
    assert_str(percent_decode(&arena, escape_str(&arena, s, ESCAPE_URI_COMPONENT)), s);
}

static void percent_decoding_leaves_malformed_parts(void **state)
{
    assert_text(percent_decode(&arena, STR("%41%00%2f+")), "A\0/+");
    assert_text(percent_decode(&arena, STR("%")), "%");
    assert_text(percent_decode(&arena, STR("%4")), "%4");
    assert_text(percent_decode(&arena, STR("%4g%g4%%41")), "%4g%g4%A");
    struct str plain = STR("plain");
    assert_ptr_equal(percent_decode(&arena, plain).data, plain.data);
    assert_text(percent_decode(&arena, STR_NONE), "");
    /* Digits behind the end do not count. */
    assert_text(percent_decode(&arena, str_head(STR("%41"), 2)), "%4");
}

#define test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(hex_digits_have_their_values),
        test(base64_examples_of_rfc_4648),
        test(bad_base64_is_refused),
        test(every_code_point_of_utf8),
        test(malformed_utf8_counts_byte_by_byte),
        test(escape_sets_are_those_of_nginx),
        test(escaped_forms),
        test(length_is_what_is_written),
        test(percent_decoding_leaves_malformed_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
