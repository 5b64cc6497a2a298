/* Tests of the cells that times are counted in: what a histogram says of a time is true of it. */
#include "base/unit.h"

#include <math.h>

#include "shared/metrics/times.h"

static int init(void **state)
{
    times_init();
    return 0;
}

static void cells_rise(void **state)
{
    for (unsigned i = 1; i < TIMES_CELLS; i++) {
        assert_true(time_cells[i].end_ms > time_cells[i - 1].end_ms);
        assert_true(time_cells[i].classic >= time_cells[i - 1].classic);
        assert_true(i == 1 || time_cells[i].bucket >= time_cells[i - 1].bucket);
    }
    for (unsigned i = 0; i < TIMES_DIRECT; i++) {
        assert_int_equal(time_cells[i].end_ms, i);
    }
}

/* The end of a bucket of the native histogram, in milliseconds. */
static double end_of(int bucket)
{
    return 1000 * exp2((double) bucket / (1 << TIMES_SCHEMA));
}

static void check(uint32_t ms)
{
    const struct time_cell *cell = &time_cells[times_cell(ms)];

    assert_true(ms <= cell->end_ms);
    assert_true(cell == time_cells || ms > cell[-1].end_ms);
    if (ms != 0) {
        assert_true(ms <= end_of(cell->bucket));
        assert_true(ms > end_of(cell->bucket - 1));
        assert_true(end_of(cell->bucket - 1) >= 1000 * TIMES_ZERO_SECONDS);
    }
    assert_true(cell->classic == TIMES_CLASSIC - 1 || ms <= times_classic_ms[cell->classic]);
    assert_true(cell->classic == 0 || ms > times_classic_ms[cell->classic - 1]);
}

static void each_time_is_in_its_buckets(void **state)
{
    for (uint32_t ms = 0; ms <= 8192000; ms++) {
        check(ms);
    }
}

static void what_takes_for_ever_is_in_the_last(void **state)
{
    assert_int_equal(times_cell(8192000), TIMES_CELLS - 2);
    assert_int_equal(times_cell(8192001), TIMES_CELLS - 1);
    assert_int_equal(times_cell(UINT32_MAX), TIMES_CELLS - 1);
    assert_int_equal(times_cell(UINT64_MAX), TIMES_CELLS - 1);
    assert_int_equal(time_cells[TIMES_CELLS - 1].bucket, 13 * (1 << TIMES_SCHEMA) + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_rise),
        cmocka_unit_test(each_time_is_in_its_buckets),
        cmocka_unit_test(what_takes_for_ever_is_in_the_last),
    };

    return cmocka_run_group_tests(tests, init, NULL);
}
