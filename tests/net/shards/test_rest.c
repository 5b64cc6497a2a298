/* When a worker rests before it looks for more connections. */
#include "net/service.h"

#include "net/shards/rest.h"

static void a_rest_pays_under_many_short_connections(void **state)
{
    assert_true(rest_pays(100, 50, 32, 0));
    assert_true(rest_pays(400, 50, 1000, 0));
    /* too few come */
    assert_false(rest_pays(99, 50, 1000, 0));
    assert_false(rest_pays(100, 51, 1000, 0));
    assert_false(rest_pays(0, 100000, 1000, 0));
    /* so few clients that they would wait for this worker */
    assert_false(rest_pays(400, 50, 31, 0));
    /* some backends are asked besides; or most clients wait for one */
    assert_true(rest_pays(400, 50, 64, 7));
    assert_false(rest_pays(400, 50, 64, 8));
    assert_false(rest_pays(400, 50, 64, 32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rest_pays_under_many_short_connections),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
