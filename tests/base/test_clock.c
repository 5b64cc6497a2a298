/* Tests of the cached clock and its texts. */
#include "base/unit.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"

static void set_zone(const char *zone)
{
    setenv("TZ", zone, 1);
    tzset();
    clock_now.seconds = 0; /* so that the texts are laid out anew */
    clock_update();
}

static void assert_laid_out(struct str text, const char *format)
{
    char expected[64];
    struct tm tm;

    localtime_r(&clock_now.seconds, &tm);
    strftime(expected, sizeof(expected), format, &tm);
    assert_str(text, str_of(expected));
}

static void texts_follow_the_zone(void **state)
{
    static const struct {
        const char *zone;
        int offset_min;
        const char *suffix;
        const char *iso_suffix;
    } zones[] = {
        {"UTC0", 0, " +0000", "+00:00"},
        {"ABC-5:30", 330, " +0530", "+05:30"},
        {"ABC+3:30", -210, " -0330", "-03:30"},
    };

    for (size_t i = 0; i < COUNT(zones); i++) {
        set_zone(zones[i].zone);
        assert_int_equal(clock_now.gmt_offset_min, zones[i].offset_min);
        assert_laid_out(CLOCK_STR(error_local), "%Y/%m/%d %H:%M:%S");
        assert_laid_out(CLOCK_STR(log_local), "%d/%b/%Y:%H:%M:%S %z");
        assert_true(str_ends(CLOCK_STR(log_local), str_of(zones[i].suffix)));
        assert_laid_out(str_head(CLOCK_STR(iso8601), 19), "%Y-%m-%dT%H:%M:%S");
        assert_true(str_ends(CLOCK_STR(iso8601), str_of(zones[i].iso_suffix)));
        assert_int_equal(http_date_parse(CLOCK_STR(http_date)), clock_now.seconds);
    }
}

static void readings_do_not_go_back(void **state)
{
    uint64_t last = 0;

    for (int i = 0; i < 10000; i++) {
        clock_update();
        assert_true(clock_now.now_ms >= last);
        assert_true(clock_now.milliseconds < 1000);
        last = clock_now.now_ms;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    assert_true(clock_now.seconds >= now.tv_sec - 60 && clock_now.seconds <= now.tv_sec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_follow_the_zone),
        cmocka_unit_test(readings_do_not_go_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
