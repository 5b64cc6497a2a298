/* Tests of slices: comparisons, searches, cuts and hashes, with empty ones and embedded NULs. */
#include "base/unit.h"

static int sign(int n)
{
    return (n > 0) - (n < 0);
}

static void equality_looks_at_length_and_bytes(void **state)
{
    assert_true(str_equal(STR_NONE, STR("")));
    assert_true(str_equal(STR("a\0b"), STR("a\0b")));
    assert_false(str_equal(STR("a\0b"), STR("a\0c")));
    assert_false(str_equal(STR("a"), STR("a\0")));
    assert_true(str_is(STR("on"), "on"));
    assert_false(str_is(STR("on\0"), "on"));
    assert_int_equal(str_of(NULL).len, 0);
}

static void nocase_is_ascii_only(void **state)
{
    assert_true(str_equal_nocase(STR("Content-LENGTH"), STR("content-length")));
    assert_false(str_equal_nocase(STR("@"), STR("`")));
    assert_false(str_equal_nocase(STR("["), STR("{")));
    assert_false(str_equal_nocase(STR("\xc4"), STR("\xe4")));
    assert_true(str_equal_nocase(STR_NONE, STR("")));
    assert_true(str_starts_nocase(STR("HTTPS://x"), STR("https://")));
    assert_false(str_starts_nocase(STR("http"), STR("https")));
}

static void compare_orders_bytes_unsigned_and_short_first(void **state)
{
    assert_int_equal(sign(str_compare(STR("a"), STR("b"))), -1);
    assert_int_equal(sign(str_compare(STR("\xff"), STR("a"))), 1);
    assert_int_equal(sign(str_compare(STR("ab"), STR("abc"))), -1);
    assert_int_equal(sign(str_compare(STR("abc"), STR("ab"))), 1);
    assert_int_equal(str_compare(STR_NONE, STR("")), 0);
}

static void find_gives_first_last_and_needle(void **state)
{
    struct str s = STR("a,b\0c,d");

    assert_ptr_equal(str_find_char(s, ','), s.data + 1);
    assert_ptr_equal(str_find_last_char(s, ','), s.data + 5);
    assert_ptr_equal(str_find_char(s, '\0'), s.data + 3);
    assert_null(str_find_char(s, 'x'));
    assert_null(str_find_char(STR_NONE, 'x'));
    assert_null(str_find_last_char(STR_NONE, 'x'));
    assert_ptr_equal(str_find(s, STR("\0c")), s.data + 3);
    assert_ptr_equal(str_find(s, STR("")), s.data);
    assert_null(str_find(s, STR("a,b\0c,dd")));
    assert_null(str_find(STR_NONE, STR("x")));
    /* The byte behind the end does not count. */
    assert_null(str_find_char(str_head(s, 5), 'd'));
}

static void trim_takes_blanks_and_tabs_of_both_ends(void **state)
{
    assert_text(str_trim(STR(" \t a b\t ")), "a b");
    assert_text(str_trim(STR(" \t ")), "");
    assert_text(str_trim(STR("\n")), "\n");
    assert_text(str_trim(STR_NONE), "");
}

static void cut_sees_every_part(void **state)
{
    struct str rest = STR(",a,,b,");
    const char *expected[] = {"", "a", "", "b", ""};
    size_t n = 0;

    while (rest.data != NULL) {
        assert_true(n < COUNT(expected));
        assert_str(str_cut(&rest, ','), str_of(expected[n]));
        n++;
    }
    assert_int_equal(n, COUNT(expected));
    assert_int_equal(rest.len, 0);
}

static void head_and_skip_keep_within_the_slice(void **state)
{
    assert_text(str_head(STR("abc"), 2), "ab");
    assert_text(str_head(STR("abc"), 9), "abc");
    assert_text(str_skip(STR("abc"), 3), "");
    assert_true(str_starts(STR("abc"), STR("")));
    assert_true(str_ends(STR("abc"), STR("bc")));
    assert_false(str_ends(STR("bc"), STR("abc")));
}

static void hashes_differ_and_nocase_agrees(void **state)
{
    assert_int_equal(str_hash_nocase(STR("HOST")), str_hash(STR("host")));
    assert_int_not_equal(str_hash(STR("HOST")), str_hash(STR("host")));
    assert_int_not_equal(str_hash(STR("a\0")), str_hash(STR("a")));
    assert_int_equal(str_hash(STR_NONE), str_hash(STR("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equality_looks_at_length_and_bytes),
        cmocka_unit_test(nocase_is_ascii_only),
        cmocka_unit_test(compare_orders_bytes_unsigned_and_short_first),
        cmocka_unit_test(find_gives_first_last_and_needle),
        cmocka_unit_test(trim_takes_blanks_and_tabs_of_both_ends),
        cmocka_unit_test(cut_sees_every_part),
        cmocka_unit_test(head_and_skip_keep_within_the_slice),
        cmocka_unit_test(hashes_differ_and_nocase_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
