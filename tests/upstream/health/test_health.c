/* What results of health checks mean for a peer: counts, changes, several checks, the log. */
#include "base/unit.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "conf/conf.h"
#include "upstream/health/private.h"

static struct buf lines; /* of the log: "[level] text\n" */

static void keep_line(struct log_sink *sink, enum log_level level, struct str line)
{
    buf_printf(&lines, "[%s] %.*s\n", log_level_names[level].data, STR_ARG(line));
}

static struct log_sink sink = {.level = LOG_INFO, .write = keep_line};
static struct log keeper = {.sinks = &sink, .level = LOG_INFO};

static const struct upstream_server server;
static struct health_settings checks[2];
static struct upstream_group group;
static struct peer_cell cell;
static struct peer peer;

static int setup(void **state)
{
    memset(&cell, 0, sizeof(cell));
    memset(checks, 0, sizeof(checks));
    checks[0] = (struct health_settings){.next = &checks[1], .fails = 2, .passes = 3};
    checks[1] = (struct health_settings){.fails = 1, .passes = 1, .name = STR("other")};
    group = (struct upstream_group){.name = STR("backends"), .health = checks};
    peer = (struct peer){.name = STR("127.0.0.1:8080"), .cell = &cell, .server = &server};
    clock_update();
    return 0;
}

static int teardown(void **state)
{
    buf_free(&lines);
    return 0;
}

static bool was_logged(const char *text)
{
    return str_find(buf_str(&lines), str_of(text)) != NULL;
}

static void settle(unsigned index, bool is_good)
{
    const struct health_result result = {is_good, is_good ? NULL : "status code 500", 0};

    const struct health_subject subject = {&group, &checks[index], index, &peer};

    health_settle(&subject, &result, &keeper);
}

static void test_enough_failures(void **state)
{
    settle(0, false);
    assert_int_equal(cell.is_unhealthy, 0);
    assert_true(was_logged("[info]"));
    settle(0, false);
    assert_int_equal(cell.is_unhealthy, 1);
    assert_true(was_logged("[error]"));
    assert_true(was_logged("peer is unhealthy while checking status code 500, health check \"\" of "
                           "peer 127.0.0.1:8080 in upstream \"backends\": disable check peer: "
                           "127.0.0.1:8080"));
    assert_int_equal(cell.checks[0].fall, 2);
    assert_int_equal(cell.checks[0].failures, 2);
    assert_int_equal(cell.checks[0].probes, 2);
}

static void test_failures_in_a_row_alone_count(void **state)
{
    settle(0, false);
    settle(0, true);
    settle(0, false);
    assert_int_equal(cell.is_unhealthy, 0);
    assert_int_equal(cell.checks[0].fall, 1);
    assert_int_equal(cell.checks[0].rise, 0);
    assert_int_equal(cell.checks[0].failures, 2);
}

static void test_one_line_for_a_change(void **state)
{
    settle(1, false);
    assert_true(was_logged("disable check peer"));
    buf_free(&lines);
    settle(1, false);
    settle(1, false);
    assert_false(was_logged("disable check peer"));
}

static void test_enough_good_answers(void **state)
{
    settle(0, false);
    settle(0, false);
    cell.fails = 7;
    settle(0, true);
    settle(0, true);
    assert_int_equal(cell.is_unhealthy, 1);
    assert_int_equal(cell.up_at_ms, 0);
    settle(0, true);
    assert_int_equal(cell.is_unhealthy, 0);
    assert_int_equal(cell.up_at_ms, clock_now.now_ms); /* slow_start counts from here */
    assert_int_equal(cell.fails, 0);
    assert_true(was_logged("peer is healthy, health check \"\" of peer 127.0.0.1:8080 in upstream "
                           "\"backends\": enable check peer: 127.0.0.1:8080"));
}

static void test_all_checks_have_to_agree(void **state)
{
    settle(1, false);
    settle(0, false);
    settle(0, false);
    assert_int_equal(cell.is_unhealthy, 3);
    settle(1, true);
    assert_int_equal(cell.is_unhealthy, 1);
    assert_int_equal(cell.up_at_ms, 0);
    assert_false(was_logged("enable check peer"));
    settle(0, true);
    settle(0, true);
    settle(0, true);
    assert_int_equal(cell.is_unhealthy, 0);
    assert_true(was_logged("enable check peer"));
}

static void test_the_first_look(void **state)
{
    health_begin_peer(&checks[0], 0, &peer, 1000);
    assert_int_equal(cell.is_unhealthy, 0);
    assert_int_equal(cell.checks[0].next_ms, 1000);
    health_begin_peer(&checks[0], 0, &peer, 2000);
    assert_int_equal(cell.checks[0].next_ms, 1000);
}

static void test_down_at_first(void **state)
{
    checks[1].is_down_at_first = true;
    health_begin_peer(&checks[1], 1, &peer, 1000);
    assert_int_equal(cell.is_unhealthy, 2);
    settle(1, true);
    assert_int_equal(cell.is_unhealthy, 0);
    health_begin_peer(&checks[1], 1, &peer, 2000); /* another worker comes */
    assert_int_equal(cell.is_unhealthy, 0);
}

/* A cell of the next generation knows rise and fall of the former one, and was not looked at. */
static void test_what_the_former_generation_knew(void **state)
{
    checks[0].is_down_at_first = checks[1].is_down_at_first = true;
    checks[0].is_persistent = true;
    cell.checks[0].rise = cell.checks[1].rise = 5;
    health_begin_peer(&checks[0], 0, &peer, 1000);
    assert_int_equal(cell.is_unhealthy, 0);
    health_begin_peer(&checks[1], 1, &peer, 1000);
    assert_int_equal(cell.is_unhealthy, 2);
    assert_int_equal(cell.checks[1].rise, 0); /* old answers do not bring it back */
}

static void test_more_checks_than_there_is_room_for(void **state)
{
    static struct health_settings many[PEER_CHECKS_MAX + 1];
    struct arena arena;
    struct conf conf = {.arena = &arena};
    struct conf_file file = {.name = STR("test")};
    struct conf_node node = {.file = &file};

    arena_init(&arena);
    group.health = NULL;
    for (unsigned i = 0; i < PEER_CHECKS_MAX; i++) {
        assert_true(health_add(&conf, &node, &group, &many[i]));
    }
    assert_ptr_equal(group.health, &many[0]);
    assert_ptr_equal(many[PEER_CHECKS_MAX - 2].next, &many[PEER_CHECKS_MAX - 1]);
    assert_false(health_add(&conf, &node, &group, &many[PEER_CHECKS_MAX]));
    assert_text(conf.messages->text, "upstream \"backends\" has more than 4 health checks");
    arena_free(&arena);
}

static unsigned visited;

static void visit(const struct upstream_group *seen, const struct peer *who, void *arg)
{
    assert_ptr_equal(seen, &group);
    assert_ptr_equal(who, (const struct peer *) arg + visited);
    visited++;
}

static void test_walking_the_peers(void **state)
{
    struct peer peers[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    struct peer_list list = {.primary = {.peers = peers, .count = 2},
                             .backup = {.peers = &peers[2], .count = 1}};
    struct upstream_group unchecked = {.peers = &list};
    struct upstream_group *groups[] = {&unchecked, &group};
    struct upstream_set set = {.groups = {groups, 2, 2}};

    health_each_peer(&set, visit, peers); /* nobody is there yet */
    assert_int_equal(visited, 0);
    group.peers = &list;
    health_each_peer(&set, visit, peers);
    assert_int_equal(visited, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_enough_failures),
        TEST(test_failures_in_a_row_alone_count),
        TEST(test_one_line_for_a_change),
        TEST(test_enough_good_answers),
        TEST(test_all_checks_have_to_agree),
        TEST(test_the_first_look),
        TEST(test_down_at_first),
        TEST(test_what_the_former_generation_knew),
        TEST(test_more_checks_than_there_is_room_for),
        TEST(test_walking_the_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
