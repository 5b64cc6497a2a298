/* Tests of how long a request took. */
#include "base/unit.h"

#include "base/clock.h"
#include "http/variables/variables.h"

static void times_of_requests_are_read_anew_where_they_are_not_cached(void **state)
{
    struct http_location location = {.request_time_cache = true};
    struct request request = {.location = &location};

    clock_now.now_ms = 5;
    assert_int_equal(request_age_ms(&request), 5);
    location.request_time_cache = false;
    assert_true(request_age_ms(&request) > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_of_requests_are_read_anew_where_they_are_not_cached),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
