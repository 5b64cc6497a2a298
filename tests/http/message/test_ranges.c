/* Tests of the parser of byte ranges. */
#include "base/unit.h"

#include "http/message/ranges_parse.h"

#define MANY INT32_MAX

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

/* Parses for a body of 10 bytes; gives the ranges as text, or what else came of it. */
static struct str parsed(const char *text, uint64_t most)
{
    struct vec ranges;
    struct str out = STR("");

    switch (ranges_parse(str_of(text), 10, most, &arena, &ranges)) {
    case RANGES_WHOLE:
        return STR("whole");
    case RANGES_NONE:
        return STR("none");
    case RANGES_SOME:
        break;
    }
    vec_each(struct byte_range, range, &ranges) {
        out = arena_concat(&arena, out,
                           arena_printf(&arena, "[%d,%d)", (int) range->start, (int) range->end));
    }
    return out;
}

static void one_range_in_its_three_forms(void **state)
{
    assert_text(parsed("0-0", MANY), "[0,1)");
    assert_text(parsed("2-4", MANY), "[2,5)");
    assert_text(parsed("2-", MANY), "[2,10)");
    assert_text(parsed("-3", MANY), "[7,10)");
}

static void ends_are_cut_to_the_body(void **state)
{
    assert_text(parsed("2-9", MANY), "[2,10)");
    assert_text(parsed("2-10", MANY), "[2,10)");
    assert_text(parsed("2-9223372036854775807", MANY), "[2,10)");
    assert_text(parsed("-10", MANY), "[0,10)");
    assert_text(parsed("-11", MANY), "[0,10)");
}

static void what_lies_behind_the_end_is_left_out(void **state)
{
    assert_text(parsed("10-", MANY), "none");
    assert_text(parsed("10-20", MANY), "none");
    assert_text(parsed("-0", MANY), "none");
    assert_text(parsed("5-4", MANY), "none");
    assert_text(parsed("0-1,10-20", MANY), "[0,2)");
    assert_text(parsed("10-20,0-1", MANY), "[0,2)");
}

static void several_keep_their_order(void **state)
{
    assert_text(parsed("5-6,0-1", MANY), "[5,7)[0,2)");
    assert_text(parsed("0-1,1-2", MANY), "[0,2)[1,3)");
    assert_text(parsed("0-1, 4-5 ,-1", MANY), "[0,2)[4,6)[9,10)");
}

static void blanks_are_spaces_around_numbers(void **state)
{
    assert_text(parsed(" 1 - 2 ", MANY), "[1,3)");
    assert_text(parsed("\t1-2", MANY), "none");
    assert_text(parsed("1 2-3", MANY), "none");
}

static void what_is_no_range_makes_all_invalid(void **state)
{
    static const char *const bad[] = {"",
                                      "-",
                                      "x-y",
                                      "1-2x",
                                      "1-2,x",
                                      "0-1,,3-4",
                                      "0-1,",
                                      ",0-1",
                                      "1",
                                      "--1",
                                      "1-2-3",
                                      "+1-2",
                                      "1-+2",
                                      "0x1-2",
                                      "1-2;3",
                                      "0-99999999999999999999",
                                      "9223372036854775808-",
                                      "-18446744073709551617"};

    for (size_t i = 0; i < COUNT(bad); i++) {
        if (!str_is(parsed(bad[i], MANY), "none")) {
            fail_msg("\"%s\" was taken", bad[i]);
        }
    }
}

static void more_bytes_than_the_body_has_are_answered_with_the_whole(void **state)
{
    assert_text(parsed("0-4,5-9", MANY), "[0,5)[5,10)");
    assert_text(parsed("0-4,5-9,0-0", MANY), "whole");
    assert_text(parsed("0-,0-", MANY), "whole");
    assert_text(parsed("0-,0-,x", MANY), "none");
}

static void most_ranges_are_limited(void **state)
{
    assert_text(parsed("0-0,1-1", 2), "[0,1)[1,2)");
    assert_text(parsed("0-0,1-1,2-2", 2), "whole");
    assert_text(parsed("0-0,20-30,2-2", 2), "[0,1)[2,3)");
}

static void empty_body_is_sent_whole(void **state)
{
    struct vec ranges;

    assert_int_equal(ranges_parse(STR("0-"), 0, MANY, &arena, &ranges), RANGES_WHOLE);
    assert_int_equal(ranges_parse(STR("-1"), 0, MANY, &arena, &ranges), RANGES_WHOLE);
    assert_int_equal(ranges_parse(STR("1-2"), 0, MANY, &arena, &ranges), RANGES_NONE);
}

static void sums_of_huge_bodies_do_not_overflow(void **state)
{
    struct vec ranges;
    uint64_t size = INT64_MAX;

    assert_int_equal(ranges_parse(STR("0-,0-,0-,0-"), size, MANY, &arena, &ranges), RANGES_WHOLE);
    assert_int_equal(ranges_parse(STR("0-9223372036854775806"), size, MANY, &arena, &ranges),
                     RANGES_SOME);
    assert_true(vec_at(&ranges, struct byte_range, 0)->end == size);
}

static void nothing_beyond_the_slice_is_read(void **state)
{
    struct vec ranges;
    struct str text = str_head(STR("1-25"), 3);

    assert_int_equal(ranges_parse(text, 100, MANY, &arena, &ranges), RANGES_SOME);
    assert_int_equal(vec_at(&ranges, struct byte_range, 0)->end, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_range_in_its_three_forms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ends_are_cut_to_the_body, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_lies_behind_the_end_is_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(several_keep_their_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blanks_are_spaces_around_numbers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_range_makes_all_invalid, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_bytes_than_the_body_has_are_answered_with_the_whole,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(most_ranges_are_limited, set_up, tear_down),
        cmocka_unit_test_setup_teardown(empty_body_is_sent_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sums_of_huge_bodies_do_not_overflow, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_beyond_the_slice_is_read, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
