/* Tests of the probes that a worker makes: when they are due, whose they are, what may happen in
 * between. */
#include "upstream/fixture.h"

#include "upstream/health.h"

static int listening = -1;
static unsigned port;
static struct upstream_group *group;

static void start_checked(const char *check, unsigned servers)
{
    struct buf text = {0};

    listening = listen_somewhere(&port, 4096);
    buf_printf(&text, "upstream u { %s", check);
    for (unsigned i = 0; i < servers; i++) {
        buf_printf(&text, " server 127.0.0.1:%u;", port);
    }
    buf_printf(&text, " }%c", 0);
    start(text.data);
    buf_free(&text);
    group = group_named("u");
}

static void stop_checked(void)
{
    finish();
    if (listening != -1) {
        close(listening);
    }
    listening = -1;
}

static struct peer_cell *cell_at(unsigned number)
{
    return group->peers->primary.peers[number].cell;
}

static struct peer_check *check_at(unsigned number)
{
    return &cell_at(number)->checks[0];
}

#define HTTP_CHECK "check interval=20 timeout=10000 rise=1 fall=1 type=http default_down=false;"

/* The next probe, whose request was read. */
static int take_probe(void)
{
    char request[256];

    turn_until(has_waiting(listening));
    int fd = accept_one(listening);
    assert_true(recv(fd, request, sizeof(request), 0) > 0);
    return fd;
}

static void answer(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    close(fd);
}

static void test_connections_are_enough(void **state)
{
    start_checked("check interval=20 timeout=10000 rise=2 fall=1;", 1);
    assert_int_equal(cell_at(0)->is_unhealthy, 1);
    turn_until(cell_at(0)->is_unhealthy == 0);
    assert_int_equal(check_at(0)->probes, 2);
    close(listening);
    listening = -1;
    turn_until(cell_at(0)->is_unhealthy == 1);
    assert_true(was_logged("while checking connection, health check"));
    assert_false(was_logged("connect() failed")); /* one line for a change */
    stop_checked();
}

static void test_a_peer_that_is_marked_down_is_left_alone(void **state)
{
    listening = listen_somewhere(&port, 16);
    char text[200];
    snprintf(text, sizeof(text),
             "upstream u { server 127.0.0.1:%u down; server 127.0.0.1:%u; check interval=20; }",
             port, port);
    start(text);
    group = group_named("u");
    turn_until(check_at(1)->probes > 2);
    assert_int_equal(check_at(0)->probes, 0);
    stop_checked();
}

static void test_answers(void **state)
{
    start_checked(HTTP_CHECK, 1);
    answer(take_probe(), "HTTP/1.0 200 OK\r\n\r\n");
    turn_until(check_at(0)->probes == 1);
    assert_int_equal(check_at(0)->rise, 1);
    answer(take_probe(), "HTTP/1.0 503 Busy\r\n\r\n");
    turn_until(cell_at(0)->is_unhealthy == 1);
    assert_true(was_logged("while checking status code 503"));
    stop_checked();
}

static void test_what_another_worker_does_is_left_to_it(void **state)
{
    start_checked(HTTP_CHECK, 1);
    int first = take_probe();
    answer(first, "HTTP/1.0 200 OK\r\n\r\n");
    turn_until(check_at(0)->probes == 1);
    uint64_t claim = clock_now.now_ms + 300; /* as if another one were at it */
    atomic_store(&check_at(0)->next_ms, claim);
    turn_until(clock_now.now_ms >= claim || has_waiting(listening));
    assert_true(clock_now.now_ms >= claim);
    answer(take_probe(), "HTTP/1.0 200 OK\r\n\r\n"); /* it is dead: the claim has expired */
    turn_until(check_at(0)->probes == 2);
    stop_checked();
}

static void test_a_result_after_the_claim_expired_leaves_the_plan_alone(void **state)
{
    start_checked(HTTP_CHECK, 1);
    int probe = take_probe();
    uint64_t claim = clock_now.now_ms + 100000;
    atomic_store(&check_at(0)->next_ms, claim);
    answer(probe, "HTTP/1.0 200 OK\r\n\r\n");
    turn_until(check_at(0)->probes == 1);
    assert_int_equal(check_at(0)->next_ms, claim);
    stop_checked();
}

static void test_the_claim_covers_the_timeout(void **state)
{
    start_checked(HTTP_CHECK, 1);
    int probe = take_probe();
    assert_true(check_at(0)->next_ms > clock_now.now_ms + 9000);
    answer(probe, "HTTP/1.0 200 OK\r\n\r\n");
    turn_until(check_at(0)->probes == 1);
    assert_true(check_at(0)->next_ms < clock_now.now_ms + 1000);
    stop_checked();
}

static void test_a_timeout(void **state)
{
    start_checked("check interval=20 timeout=50 rise=1 fall=1 type=http default_down=false;", 1);
    int probe = take_probe();
    turn_until(cell_at(0)->is_unhealthy == 1);
    assert_true(was_logged("while checking answer, health check"));
    close(probe);
    stop_checked();
}

static void test_quitting_in_a_probe(void **state)
{
    start_checked(HTTP_CHECK, 2);
    int first = take_probe();
    int second = take_probe();
    upstream_worker_quit(generation, &upstream_http);
    loop_turn(0);
    assert_int_equal(check_at(0)->probes, 0);
    assert_int_equal(cell_at(0)->is_unhealthy, 0);
    assert_true(check_at(0)->next_ms <= clock_now.now_ms); /* for another worker, at once */
    assert_false(was_logged("unhealthy"));
    close(first);
    close(second);
    stop_checked();
}

static void test_the_list_is_replaced_in_a_probe(void **state)
{
    start_checked(HTTP_CHECK, 1);
    int probe = take_probe();
    peers_renew(group);
    turn_until(group->peers->references == 2); /* the checks look at the new one */
    answer(probe, "HTTP/1.0 200 OK\r\n\r\n");
    turn_until(check_at(0)->probes == 1);
    answer(take_probe(), "HTTP/1.0 200 OK\r\n\r\n");
    turn_until(check_at(0)->probes == 2);
    stop_checked();
}

static void test_a_peer_leaves_in_a_probe(void **state)
{
    start_checked(HTTP_CHECK, 2);
    int first = take_probe();
    int second = take_probe();
    struct peer_check *left = check_at(1);

    group->servers.count = 1;
    peers_renew(group);
    assert_int_equal(group->peers->count, 1);
    turn_until(group->peers->references == 2);
    answer(first, "HTTP/1.0 500 Oh\r\n\r\n");
    answer(second, "HTTP/1.0 500 Oh\r\n\r\n");
    turn_until(check_at(0)->probes == 1);
    loop_turn(0);
    assert_int_equal(left->probes, 0);
    assert_int_equal(times_logged("disable check peer"), 1);
    group->servers.count = 2;
    stop_checked();
}

static void test_a_peer_comes(void **state)
{
    start_checked("check interval=20 rise=1;", 2);
    group->servers.count = 1;
    peers_renew(group);
    turn_until(check_at(0)->probes > 2);
    group->servers.count = 2;
    peers_renew(group);
    uint64_t before = check_at(1)->probes;
    turn_until(check_at(1)->probes > before);
    stop_checked();
}

static bool are_all_checked(unsigned peers)
{
    for (unsigned i = 0; i < peers; i++) {
        if (check_at(i)->probes == 0) {
            return false;
        }
    }
    return true;
}

/* The fixture's worker has 200 fibers. */
static void test_more_peers_than_fibers(void **state)
{
    enum { PEERS = 250 };
    start_checked("check interval=20 timeout=10000 rise=1 type=http;", PEERS);
    assert_true(was_logged("no fiber for the health check of peer"));
    close(listening); /* whoever waits is answered by a reset, and its fiber is free */
    listening = -1;
    turn_until(are_all_checked(PEERS));
    stop_checked();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections_are_enough),
        cmocka_unit_test(test_a_peer_that_is_marked_down_is_left_alone),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_what_another_worker_does_is_left_to_it),
        cmocka_unit_test(test_a_result_after_the_claim_expired_leaves_the_plan_alone),
        cmocka_unit_test(test_the_claim_covers_the_timeout),
        cmocka_unit_test(test_a_timeout),
        cmocka_unit_test(test_quitting_in_a_probe),
        cmocka_unit_test(test_the_list_is_replaced_in_a_probe),
        cmocka_unit_test(test_a_peer_leaves_in_a_probe),
        cmocka_unit_test(test_a_peer_comes),
        cmocka_unit_test(test_more_peers_than_fibers),
    };

    return upstream_tests_run("health_worker", tests);
}
