/* Tests of what expires says, and of the moments that follow from it. */
#include "base/unit.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http/modules/filters/headers_filter/expires.h"

static struct expires good(const char *text, bool is_modified)
{
    struct expires expires;
    const char *error = expires_parse(str_of(text), is_modified, &expires);

    if (error != NULL) {
        fail_msg("\"%s\": %s", text, error);
    }
    return expires;
}

static void words_and_times(void **state)
{
    static const struct {
        const char *text;
        enum expires_kind kind;
        int64_t seconds;
    } rows[] = {
        {"off", EXPIRES_OFF, 0},           {"epoch", EXPIRES_EPOCH, 0},
        {"max", EXPIRES_MAX, 0},           {"0", EXPIRES_AFTER, 0},
        {"30", EXPIRES_AFTER, 30},         {"1h30m", EXPIRES_AFTER, 5400},
        {"-1", EXPIRES_AFTER, -1},         {"-1d", EXPIRES_AFTER, -86400},
        {"+1h", EXPIRES_AFTER, 3600},      {"@0", EXPIRES_DAILY, 0},
        {"@15h30m", EXPIRES_DAILY, 55800}, {"1y", EXPIRES_AFTER, 31536000},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct expires expires = good(rows[i].text, false);
        assert_int_equal(expires.kind, rows[i].kind);
        assert_int_equal(expires.seconds, rows[i].seconds);
    }
    struct expires modified = good("-1h", true);
    assert_int_equal(modified.kind, EXPIRES_MODIFIED);
    assert_int_equal(modified.seconds, -3600);
}

static void bad_texts_say_why(void **state)
{
    static const char *const bad[] = {"",      "x",   "-",   "+",    "@",  "1h x",
                                      "MAX",   "Off", "--1", "@-1h", "1x", "99999999999999999999",
                                      "1001y", "@@1"};
    struct expires expires;

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_non_null(expires_parse(str_of(bad[i]), false, &expires));
    }
    assert_string_equal(expires_parse(STR("@25h"), false, &expires),
                        "daily time value must be less than 24 hours");
    assert_string_equal(expires_parse(STR("@1h"), true, &expires),
                        "daily time cannot be used with \"modified\" parameter");
    assert_string_equal(expires_parse(STR("max"), true, &expires), "invalid value");
}

#define NOON 1700000000 - 1700000000 % 86400 + 12 * 3600

static void compute(const char *text, bool is_modified, time_t modified, int64_t distance,
                    int64_t age)
{
    struct expires expires = good(text, is_modified);
    time_t now = NOON;
    time_t when;
    int64_t max_age;

    expires_compute(&expires, now, modified, &when, &max_age);
    assert_int_equal(when - now, distance);
    assert_int_equal(max_age, age);
}

static void moments(void **state)
{
    setenv("TZ", "UTC", 1);
    tzset();
    compute("1h", false, -1, 3600, 3600);
    compute("-1h", false, -1, -3600, -3600);
    compute("1h", true, NOON - 600, 3000, 3000);
    compute("1h", true, NOON - 7200, -3600, -3600);
    compute("1h", true, -1, 3600, 3600);              /* nothing was modified: from now */
    compute("@13h", false, -1, 3600, 3600);           /* later today */
    compute("@11h", false, -1, 23 * 3600, 23 * 3600); /* tomorrow */
    compute("@12h", false, -1, 86400, 86400);
    compute("@24h", false, -1, 12 * 3600, 12 * 3600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_and_times),
        cmocka_unit_test(bad_texts_say_why),
        cmocka_unit_test(moments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
