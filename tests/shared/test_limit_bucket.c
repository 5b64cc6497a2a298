/* Tests of the buckets of limit_req: rates, excess, delays, and which keys are forgotten. */
#include "base/unit.h"

#include "base/log.h"
#include "shared/limit/bucket.h"

enum { ZONE_SIZE = 8 * 4096 };

#define UNITS(requests) ((uint64_t) (requests) *REQUEST_UNITS)

static struct zone zone;
static struct shm_table *table;

static int set_up(void **state)
{
    zone = (struct zone){.size = ZONE_SIZE, .memory = shm_map(ZONE_SIZE)};
    zone.slab = slab_init(zone.memory, ZONE_SIZE);
    table = shm_table_of(&zone, BUCKET_RECORD_SIZE, 0);
    return table == NULL;
}

static int tear_down(void **state)
{
    shm_unmap(zone.memory, ZONE_SIZE);
    return 0;
}

static uint64_t rate(const char *text)
{
    uint64_t per_minute = 0;

    return bucket_parse_rate(str_of(text), &per_minute) ? per_minute : 0;
}

static void rates(void **state)
{
    assert_int_equal(rate("1r/m"), 1);
    assert_int_equal(rate("30r/m"), 30);
    assert_int_equal(rate("1r/s"), 60);
    assert_int_equal(rate("7"), 420);
    assert_int_equal(rate("9223372036854775807r/s"), 60 * (uint64_t) REQUESTS_MOST);
    const char *bad[] = {"",      "r/s",  "0r/s",  "0",     "1r/h",  "1.5r/s",
                         "-1r/s", "1R/S", "1r",    "1 r/s", "1r/s ", "r/m",
                         "/s",    "x",    "1r/m1", "+1r/s", "1r/ms", "18446744073709551616r/s"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(rate(bad[i]), 0);
    }
}

static void excess(void **state)
{
    assert_int_equal(bucket_excess(0, 0, 60), UNITS(1));
    assert_int_equal(bucket_excess(UNITS(1), 0, 60), UNITS(2));
    /* One a second: half is gone after half of one. */
    assert_int_equal(bucket_excess(0, 500, 60), UNITS(1) / 2);
    assert_int_equal(bucket_excess(0, 1000, 60), 0);
    assert_int_equal(bucket_excess(UNITS(5), 1000, 60), UNITS(5));
    /* A rate that no millisecond divides loses nothing: seven a minute, asked each millisecond. */
    uint64_t units = UNITS(100);
    for (int i = 0; i < 60000; i++) {
        units = bucket_excess(units, 1, 7) - UNITS(1);
    }
    assert_int_equal(units, UNITS(93));
    assert_int_equal(bucket_excess(UNITS(REQUESTS_MOST), UINT64_MAX, 60 * (uint64_t) REQUESTS_MOST),
                     0);
    assert_int_equal(bucket_excess(0, UINT64_MAX, 1), 0);
    assert_int_equal(bucket_thousandths(0), 0);
    assert_int_equal(bucket_thousandths(1), 1);
    assert_int_equal(bucket_thousandths(UNITS(1) - 3), 1000);
    assert_int_equal(bucket_thousandths(UNITS(2)), 2000);
}

static void delays(void **state)
{
    assert_int_equal(bucket_delay_ms(UNITS(1), 0, 60), 1000);
    assert_int_equal(bucket_delay_ms(UNITS(1), 0, 1), 60000);
    assert_int_equal(bucket_delay_ms(UNITS(3), UNITS(2), 30), 2000);
    assert_int_equal(bucket_delay_ms(UNITS(2), UNITS(2), 30), 0);
    assert_int_equal(bucket_delay_ms(UNITS(1), UNITS(2), 30), 0);
    assert_int_equal(bucket_delay_ms(UNITS(1), UINT64_MAX, 1), 0);
    assert_int_equal(bucket_delay_ms(UNITS(1), 0, rate("5000r/s")), 0);
}

static struct bucket_ask ask_of(unsigned number, uint64_t now_ms, uint64_t burst)
{
    struct str bytes = {(const char *) &number, sizeof(number)};

    return (struct bucket_ask){.key = shm_table_key(table, bytes),
                               .per_minute = 1,
                               .burst = UNITS(burst),
                               .now_ms = now_ms};
}

static bool take(unsigned number, uint64_t now_ms, uint64_t burst)
{
    struct bucket_ask ask = ask_of(number, now_ms, burst);

    return bucket_take(table, &ask, true);
}

static void burst(void **state)
{
    assert_true(take(1, 1000, 2));
    assert_true(take(1, 1000, 2));
    assert_true(take(1, 1000, 2));
    assert_false(take(1, 1000, 2));
    assert_false(take(1, 1000, 0));
    assert_true(take(2, 1000, 0));
    /* What is refused is not counted; one more after each minute. */
    assert_false(take(1, 60999, 2));
    assert_true(take(1, 61000, 2));
    assert_false(take(1, 61000, 2));
    assert_true(take(1, 361000, 0));
}

static void asking_counts_nothing(void **state)
{
    for (int i = 0; i < 3; i++) {
        struct bucket_ask ask = ask_of(1, 1000, 0);
        assert_true(bucket_take(table, &ask, false));
        assert_int_equal(ask.excess, 0);
    }
    struct bucket_ask ask = ask_of(1, 1000, 0);
    bucket_count(table, &ask);
    bucket_count(table, &ask);
    assert_false(bucket_take(table, &ask, true));
    assert_int_equal(ask.excess, UNITS(2));
}

/* What is counted for others is listed once, until they get it; a refusal lists the bucket, too. */
static void shared_buckets(void **state)
{
    struct bucket_ask ask = ask_of(1, 1000, 1);

    ask.is_shared = true;
    assert_true(bucket_take(table, &ask, true));
    assert_false(ask.is_listed);
    bucket_count(table, &ask);
    assert_true(ask.is_listed);
    bucket_set(table, &ask, 60000000, 0);
    assert_int_equal(bucket_held(table, &ask), UNITS(3));
    assert_int_equal(bucket_since(table, &ask.key), UNITS(2));
    assert_false(bucket_take(table, &ask, true));
    assert_false(ask.is_listed);
    assert_int_equal(bucket_since(table, &ask.key), 0);
    assert_true(take(2, 1000, 1));
    assert_int_equal(bucket_since(table, &(const struct shm_key){{1, 2}}), 0);
    /* The process that was to list it may have died. */
    unsigned wanted = 0;
    for (unsigned i = 0; i < 4096; i++) {
        bucket_count(table, &ask);
        wanted += !ask.is_listed;
    }
    assert_in_range(wanted, 2, 5);
    assert_int_equal(bucket_since(table, &ask.key), UNITS(4096));
}

/* Another worker's clock may have been read a moment later. */
static void time_does_not_run_backwards(void **state)
{
    assert_true(take(1, 60000, 0));
    assert_false(take(1, 10, 0));
    assert_true(take(1, 10, 1));
    assert_false(take(1, 60000, 1));
    assert_true(take(1, 120000, 1));
}

static void full_zone_forgets_the_oldest(void **state)
{
    unsigned count = 0;

    while (count < shm_table_capacity(table) * 2) {
        assert_true(take(count, 1, 0));
        assert_false(take(count, 1, 0));
        assert_false(take(count / 100 * 100, 1, 0)); /* a refusal is no use */
        count++;
    }
    assert_true(take(0, 1, 0));
    assert_false(take(count - 1, 1, 0));
    assert_false(take(count - 200, 1, 0));
}

#define test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates),           cmocka_unit_test(excess),
        cmocka_unit_test(delays),          test(burst),
        test(asking_counts_nothing),       test(shared_buckets),
        test(time_does_not_run_backwards), test(full_zone_forgets_the_oldest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
