/* Tests of HTTP dates (RFC 9110, 5.6.7). */
#include "base/unit.h"

#include <time.h>

#include "base/clock.h"
#include "base/parse.h"

static void the_three_forms_mean_the_same(void **state)
{
    assert_int_equal(http_date_parse(STR("Sun, 06 Nov 1994 08:49:37 GMT")), 784111777);
    assert_int_equal(http_date_parse(STR("Sunday, 06-Nov-94 08:49:37 GMT")), 784111777);
    assert_int_equal(http_date_parse(STR("Sun Nov  6 08:49:37 1994")), 784111777);
    assert_int_equal(http_date_parse(STR("Wed Nov 16 08:49:37 1994")), 784975777);
    assert_int_equal(http_date_parse(STR("Thu, 01 Jan 1970 00:00:00 GMT")), 0);
    assert_int_equal(http_date_parse(STR("Fri, 31 Dec 9999 23:59:59 GMT")), 253402300799);
    /* A leap day, and a leap second. */
    assert_int_equal(http_date_parse(STR("Tue, 29 Feb 2000 00:00:00 GMT")), 951782400);
    assert_int_equal(http_date_parse(STR("Sat, 31 Dec 2016 23:59:60 GMT")), 1483228800);
}

static void two_digit_years_lie_at_most_50_years_ahead(void **state)
{
    clock_now.seconds = 1784714400; /* 2026-07-22 */
    assert_true(http_date_parse(STR("Monday, 06-Jan-76 00:00:00 GMT")) > 3000000000);
    assert_int_equal(http_date_parse(STR("Thursday, 06-Jan-77 00:00:00 GMT")), 221356800);
    assert_int_equal(http_date_parse(STR("Tuesday, 06-Jan-26 00:00:00 GMT")), 1767657600);
    assert_int_equal(http_date_parse(STR("Thursday, 06-Jan-00 00:00:00 GMT")), 947116800);
}

static void everything_else_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "Sun",
        "Sun,",
        "Sun, ",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        " Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Foo, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 29 Feb 1900 08:49:37 GMT",
        "Sun, 29 Feb 1994 08:49:37 GMT",
        "Sun, 29 Feb 2100 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 -8:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1969 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        "Sun Nov  6 08:49:37 94",
        "Sunday, 06-Nov-94 08:49:3",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (http_date_parse(str_of(bad[i])) != -1) {
            fail_msg("\"%s\" was taken", bad[i]);
        }
    }
    /* Each cut of a good one is bad. */
    struct str good = STR("Sun, 06 Nov 1994 08:49:37 GMT");
    for (size_t len = 0; len < good.len; len++) {
        assert_int_equal(http_date_parse(str_head(good, len)), -1);
    }
}

static void letters_of_any_case(void **state)
{
    assert_int_equal(http_date_parse_loosely(STR("Sun, 06 Nov 1994 08:49:37 GMT")), 784111777);
    assert_int_equal(http_date_parse_loosely(STR("sUN, 06 nOV 1994 08:49:37 gmt")), 784111777);
    assert_int_equal(http_date_parse_loosely(STR("SUNDAY, 06-NOV-94 08:49:37 Gmt")), 784111777);
    assert_int_equal(http_date_parse_loosely(STR("sun nov  6 08:49:37 1994")), 784111777);
    assert_int_equal(http_date_parse_loosely(STR("Sun, 06 Nov 1994 08:49:37 UTC")), -1);
    assert_int_equal(http_date_parse_loosely(STR("0")), -1);
    assert_int_equal(http_date_parse_loosely(STR("")), -1);
    assert_int_equal(http_date_parse_loosely(
                         STR("Sun, 06 Nov 1994 08:49:37 GMT              and more")),
                     -1);
}

static void written_dates_agree_with_the_c_library_and_read_back(void **state)
{
    char text[HTTP_DATE_LENGTH];
    char expected[64];

    for (time_t when = 0; when < 253402300799; when += 86400 * 9 + 12345) {
        struct tm tm;
        gmtime_r(&when, &tm);
        strftime(expected, sizeof(expected), "%a, %d %b %Y %H:%M:%S GMT", &tm);
        assert_ptr_equal(http_date_format(text, when), text + HTTP_DATE_LENGTH);
        assert_str(((struct str){text, HTTP_DATE_LENGTH}), str_of(expected));
        assert_int_equal(http_date_parse((struct str){text, HTTP_DATE_LENGTH}), when);
    }
    http_date_format(text, -5);
    assert_memory_equal(text, "Thu, 01 Jan 1970 00:00:00 GMT", HTTP_DATE_LENGTH);
    http_date_format(text, INT64_MAX);
    assert_memory_equal(text, "Fri, 31 Dec 9999 23:59:59 GMT", HTTP_DATE_LENGTH);
}

static void dates_of_cookies_have_short_years_until_2037(void **state)
{
    char text[HTTP_DATE_LENGTH];

#define COOKIE_DATE(when) (struct str){text, (size_t) (cookie_date_format(text, when) - text)}
    assert_str(COOKIE_DATE(784111777), STR("Sun, 06-Nov-94 08:49:37 GMT"));
    assert_str(COOKIE_DATE(2145916799), STR("Thu, 31-Dec-37 23:59:59 GMT"));
    assert_str(COOKIE_DATE(2145916800), STR("Fri, 01-Jan-2038 00:00:00 GMT"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_three_forms_mean_the_same),
        cmocka_unit_test(two_digit_years_lie_at_most_50_years_ahead),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(letters_of_any_case),
        cmocka_unit_test(written_dates_agree_with_the_c_library_and_read_back),
        cmocka_unit_test(dates_of_cookies_have_short_years_until_2037),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
