/* Tests of the points of `dashboard`: what is in each, which are kept, and who takes them. */
#include "base/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "shared/metrics/history.h"

enum { COUNTERS_SIZE = 8 << 20, STEP = 1000 };

static struct zone counters, points;
static unsigned server, first_peer, second_peer;

static void make_zone(struct zone *zone, size_t size)
{
    *zone = (struct zone){.size = size, .memory = shm_map(size)};
    zone->slab = slab_init(zone->memory, size);
}

static int set_up(void **state)
{
    char text[SERIES_LABEL];

    clock_now.now_ms = 1000000;
    make_zone(&counters, COUNTERS_SIZE);
    make_zone(&points, history_zone_size());
    if (!metrics_use(&counters) || !history_use(&points)) {
        return 1;
    }
    metrics_worker_start();
    server = metrics_series(SERIES_SERVER, STR("a.test"));
    first_peer =
        metrics_series(SERIES_PEER, metrics_peer_label(text, STR("app"), STR("10.0.0.1:80")));
    second_peer =
        metrics_series(SERIES_PEER, metrics_peer_label(text, STR("app"), STR("10.0.0.2:80")));
    history_look(STEP); /* where all others begin */
    return 0;
}

static int tear_down(void **state)
{
    metrics_worker_end();
    shm_unmap(counters.memory, counters.size);
    shm_unmap(points.memory, points.size);
    return 0;
}

static void count(unsigned series, unsigned status, uint64_t time_ms, unsigned times)
{
    while (times-- != 0) {
        metrics_count(series, &(struct metrics_sample){.status = status, .time_ms = time_ms});
    }
}

static void look_after(uint64_t ms)
{
    clock_now.now_ms += ms;
    history_look(STEP);
}

/* What is shown of the points after that number, in a buffer of this function. */
static const char *shown(uint64_t after)
{
    static struct buf out;
    struct json json = {.out = &out};

    buf_free(&out);
    out = (struct buf){0};
    json_open(&json, STR_NONE, '{');
    history_put(&json, after);
    json_close(&json, '}');
    buf_append_char(&out, 0);
    return buf_str(&out).data;
}

#define SHOWS(after, text) assert_non_null(strstr(shown(after), text))

static void a_point_has_what_came_since_the_last(void **state)
{
    count(server, 200, 10, 98);
    count(server, 404, 10, 1);
    count(server, 503, 700, 1);
    look_after(STEP);
    SHOWS(
        0,
        "\"kind\":\"server\",\"name\":\"a.test\",\"count\":[100],\"errors_4xx\":[1],\"errors_5xx\":[1],"
        "\"p50_ms\":[10],\"p99_ms\":[10]}");
    SHOWS(0, "\"kind\":\"all\",\"name\":\"\",\"count\":[100]");
    SHOWS(0, "\"length_ms\":[1000]");
    count(server, 503, 700, 2);
    look_after(STEP);
    SHOWS(
        0,
        "\"name\":\"a.test\",\"count\":[100,2],\"errors_4xx\":[1,0],\"errors_5xx\":[1,2],\"p50_ms\":[10,");
    SHOWS(
        0,
        "{\"kind\":\"status 404\",\"recent\":1,\"count\":1},{\"kind\":\"status 503\",\"recent\":3,\"count\":3}");
}

static void servers_of_an_upstream_are_one_row(void **state)
{
    count(first_peer, 200, 5, 3);
    count(second_peer, 502, 5, 1);
    count(second_peer, 0, 5, 2);
    look_after(STEP);
    SHOWS(
        0,
        "\"kind\":\"upstream\",\"name\":\"app\",\"count\":[6],\"errors_4xx\":[0],\"errors_5xx\":[3]");
    SHOWS(0, "\"kind\":\"all\",\"name\":\"\",\"count\":[0]");
    SHOWS(0, "{\"kind\":\"upstream without response\",\"recent\":2,\"count\":2},"
             "{\"kind\":\"upstream responses 5xx\",\"recent\":1,\"count\":1}");
}

static void a_point_without_requests_has_no_times(void **state)
{
    look_after(STEP);
    SHOWS(
        0,
        "\"name\":\"a.test\",\"count\":[0],\"errors_4xx\":[0],\"errors_5xx\":[0],\"p50_ms\":[null],\"p99_ms\":[null]");
}

static void nothing_is_taken_before_a_step_has_passed(void **state)
{
    look_after(STEP - 1);
    SHOWS(0, "\"first\":0,\"count\":0,");
    look_after(1);
    SHOWS(0, "\"first\":0,\"count\":1,");
    history_look(STEP);
    SHOWS(0, "\"first\":0,\"count\":1,");
}

static void a_late_look_makes_a_longer_point(void **state)
{
    count(server, 200, 1, 8);
    look_after(4 * STEP);
    SHOWS(0, "\"length_ms\":[4000]");
    SHOWS(0, "\"name\":\"a.test\",\"count\":[8]");
}

static void a_row_that_comes_later_has_no_requests_before(void **state)
{
    look_after(STEP);
    unsigned late = metrics_series(SERIES_ZONE, STR("late"));
    count(late, 200, 1, 5);
    look_after(STEP);
    SHOWS(0, "\"kind\":\"zone\",\"name\":\"late\",\"count\":[0,5]");
}

static void only_the_last_points_are_kept(void **state)
{
    for (unsigned i = 0; i < 3 * HISTORY_POINTS; i++) {
        count(server, 200, 1, i == 3 * HISTORY_POINTS - 1 ? 7 : 1);
        look_after(STEP);
    }
    SHOWS(0, "\"first\":241,\"count\":360,");
    SHOWS(358, "\"first\":358,\"count\":360,");
    SHOWS(358, "\"name\":\"a.test\",\"count\":[1,7]");
    SHOWS(360, "\"name\":\"a.test\",\"count\":[]");
    SHOWS(361, "\"first\":241,\"count\":360,"); /* of a service that has begun again: all */
    SHOWS(240, "\"first\":241,\"count\":360,");
}

/* A worker that begins finds what others took; counters that began again count whole. */
static void points_outlive_the_worker_and_the_counters(void **state)
{
    struct zone fresh;

    count(server, 200, 1, 9);
    look_after(STEP);
    make_zone(&fresh, COUNTERS_SIZE);
    metrics_worker_end();
    assert_true(metrics_use(&fresh) && history_use(&points));
    metrics_worker_start();
    count(metrics_series(SERIES_SERVER, STR("a.test")), 200, 1, 4);
    look_after(STEP);
    SHOWS(0, "\"name\":\"a.test\",\"count\":[9,4]");
    metrics_worker_end();
    assert_true(metrics_use(&counters)); /* for the end of this test */
    shm_unmap(fresh.memory, fresh.size);
}

static void more_series_than_rows_are_counted_as_lost(void **state)
{
    char name[16];

    for (unsigned i = 0; i < HISTORY_ROWS + 10; i++) {
        snprintf(name, sizeof(name), "zone %u", i);
        metrics_series(SERIES_ZONE, str_of(name));
    }
    look_after(STEP);
    SHOWS(0, "\"lost\":13,"); /* the first three rows are of all servers, a.test and app */
    look_after(STEP);
    SHOWS(0, "\"lost\":13,");
}

static void names_are_escaped(void **state)
{
    count(metrics_series(SERIES_ZONE, STR("\"<b>\\\n")), 200, 1, 1);
    look_after(STEP);
    SHOWS(0, "\"name\":\"\\\"<b>\\\\\\n\",\"count\":[1]");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_point_has_what_came_since_the_last),
        TEST(servers_of_an_upstream_are_one_row),
        TEST(a_point_without_requests_has_no_times),
        TEST(nothing_is_taken_before_a_step_has_passed),
        TEST(a_late_look_makes_a_longer_point),
        TEST(a_row_that_comes_later_has_no_requests_before),
        TEST(only_the_last_points_are_kept),
        TEST(points_outlive_the_worker_and_the_counters),
        TEST(more_series_than_rows_are_counted_as_lost),
        TEST(names_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
