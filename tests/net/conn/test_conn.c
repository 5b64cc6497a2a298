/* Connections: their start, the pool, rest, deadlines, options, fibers. */
#include "net/pair.h"

#include <errno.h>
#include <netinet/tcp.h>

#include "fiber/fiber.h"
#include "net/shards/listener.h"

/* ---- start ---- */

static void a_start_reads_what_came_along(void **state)
{
    struct pair pair;

    /* Experience first: input is there at once. */
    for (int i = 0; i < 10; i++) {
        pair_open(&pair);
        peer_sends(&pair, "GET");
        await_readable(pair.conn->source.fd);
        conn_start(pair.conn);
        turn_until_input(&pair, 1);
        assert_input(pair.conn, "GET");
        pair_close(&pair);
    }
    pair_open(&pair);
    peer_sends(&pair, "GET");
    await_readable(pair.conn->source.fd);
    conn_start(pair.conn);
    assert_int_equal(pair.inputs, 1); /* without a turn of the loop */
    assert_true(pair.conn->source.is_registered);
    pair_close(&pair);
}

static void a_start_that_closes_is_never_registered(void **state)
{
    struct pair pair;

    pair_open(&pair);
    pair.closes = true;
    peer_sends(&pair, "GET");
    await_readable(pair.conn->source.fd);
    conn_start(pair.conn);
    assert_null(pair.conn);
    pair_close(&pair);
}

static void silent_clients_teach_the_start_to_wait(void **state)
{
    struct pair pair;
    int reads = 0;

    for (int i = 0; i < 64; i++) {
        pair_open(&pair);
        conn_start(pair.conn);
        reads += i >= 32 && pair.inputs != 0;
        pair_close(&pair);
    }
    assert_in_range(reads, 0, 2); /* one in 32 is tried all the same */
}

/* ---- the pool ---- */

static void the_limit_holds_and_numbers_rise(void **state)
{
    struct pair a;
    struct pair b;
    int fds[2];

    conn_pool_init(2);
    pair_open(&a);
    pair_open(&b);
    assert_int_equal(conn_number(b.conn), conn_number(a.conn) + 1);
    tcp_pair(fds);
    assert_null(conn_new(fds[0], NULL, &pair_owner, log_main));
    close(fds[0]);
    close(fds[1]);
    pair_close(&a);
    pair_open(&a);
    pair_close(&a);
    pair_close(&b);
}

static void a_huge_limit_costs_nothing(void **state)
{
    conn_pool_init(1048576);
    assert_true(sizeof(struct conn) <= 320);
}

static void peers_of_all_families_are_kept(void **state)
{
    static const char *const texts[] = {"192.0.2.1", "2001:db8::1"};
    struct addr addr;
    struct addr got;
    char text[ADDR_TEXT_MAX];

    for (size_t i = 0; i < 2; i++) {
        assert_true(addr_parse_ip(str_of(texts[i]), &addr));
        addr_set_port(&addr, 4711);
        struct conn *conn = conn_new(dup(0), &addr, &pair_owner, log_main);
        conn_peer(conn, &got);
        assert_true(addr_equal(&addr, &got));
        assert_true(conn->is_tcp);
        conn_close(conn);
    }
    memset(&addr, 0, sizeof(addr));
    addr.len = sizeof(addr.un);
    addr.un.sun_family = AF_UNIX;
    strcpy(addr.un.sun_path, "/a/rather/long/path/of/a/client/which/has/bound/its/socket");
    struct conn *conn = conn_new(dup(0), &addr, &pair_owner, log_main);
    conn_peer(conn, &got);
    assert_true(addr_equal(&addr, &got));
    assert_false(conn->is_tcp);
    conn_close(conn);
    addr.len = sizeof(sa_family_t);
    conn = conn_new(dup(0), &addr, &pair_owner, log_main);
    conn_peer(conn, &got);
    assert_int_equal(addr_format(&got, false, text), 5);
    assert_memory_equal(text, "unix:", 5);
    conn_close(conn);
}

static void a_reset_is_what_the_peer_sees(void **state)
{
    struct pair pair;
    char byte;

    pair_open(&pair);
    conn_reset(pair.conn);
    pair.conn = NULL;
    await_readable(pair.peer);
    assert_int_equal(recv(pair.peer, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    pair_close(&pair);
}

/* ---- rest ---- */

static void a_parked_connection_has_no_buffers_and_wakes(void **state)
{
    struct pair pair;

    pair_open(&pair);
    pair.parks = true;
    peer_sends(&pair, "ping");
    await_readable(pair.conn->source.fd);
    assert_true(conn_fill(pair.conn, 1024, 1024));
    conn_consume(pair.conn, 4);
    assert_true(conn_park(pair.conn));
    assert_null(pair.conn->in);
    assert_null(pair.conn->out);
    assert_int_equal(conn_pool.idle, 1);
    pair.parks = false;
    peer_sends(&pair, "pong");
    turn_until_input(&pair, 1);
    assert_int_equal(conn_pool.idle, 0);
    assert_input(pair.conn, "pong");
    pair_close(&pair);
}

static void the_one_that_rested_longest_comes_first(void **state)
{
    struct pair a;
    struct pair b;

    assert_null(conn_longest_idle());
    pair_open(&a);
    pair_open(&b);
    assert_true(conn_park(a.conn));
    assert_true(conn_park(b.conn));
    assert_ptr_equal(conn_longest_idle(), a.conn);
    conn_unpark(a.conn);
    assert_ptr_equal(conn_longest_idle(), b.conn);
    assert_true(conn_park(a.conn));
    assert_ptr_equal(conn_longest_idle(), b.conn);
    conn_close(b.conn);
    b.conn = NULL;
    assert_ptr_equal(conn_longest_idle(), a.conn);
    pair_close(&a);
    pair_close(&b);
}

static void visit_odd_ones(struct conn *conn, void *arg)
{
    int *visited = arg;

    if (++*visited % 2 != 0) {
        struct pair *pair = conn->user;

        conn_close(conn);
        pair->conn = NULL;
    }
}

static void visitors_may_close(void **state)
{
    struct pair pairs[5];
    int visited = 0;

    conn_each(visit_odd_ones, &visited);
    assert_int_equal(visited, 0);
    for (int i = 0; i < 5; i++) {
        pair_open(&pairs[i]);
        assert_true(conn_park(pairs[i].conn));
    }
    conn_each(visit_odd_ones, &visited);
    assert_int_equal(visited, 5);
    assert_int_equal(conn_pool.idle, 2);
    for (int i = 0; i < 5; i++) {
        pair_close(&pairs[i]);
    }
}

static void visit_pair(struct conn *conn, void *arg)
{
    struct pair *pair = conn->user;

    pair->inputs++;
}

static void a_walk_in_pieces_visits_each_once(void **state)
{
    struct pair pairs[5];
    struct conn_walk walk = {0};
    unsigned pieces = 1;

    for (int i = 0; i < 5; i++) {
        pair_open(&pairs[i]);
    }
    while (conn_walk(&walk, 3, visit_pair, NULL)) {
        pieces++;
    }
    assert_true(pieces > 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(pairs[i].inputs, 1);
        pair_close(&pairs[i]);
    }
    walk = (struct conn_walk){0};
    assert_false(conn_walk(&walk, SIZE_MAX, visit_pair, NULL));
}

static void a_deadline_is_told(void **state)
{
    struct pair pair;

    pair_open(&pair);
    assert_true(conn_watch(pair.conn));
    conn_set_deadline(pair.conn, clock_now.now_ms + 3);
    turn_until(pair.timeouts == 1);
    conn_set_deadline(pair.conn, clock_now.now_ms + 3);
    pair.closes = true;
    turn_until(pair.timeouts == 2);
    assert_null(pair.conn);
    pair_close(&pair);
}

/* ---- options ---- */

static int nodelay_of(struct conn *conn)
{
    int value = -1;
    socklen_t len = sizeof(value);

    getsockopt(conn->source.fd, IPPROTO_TCP, TCP_NODELAY, &value, &len);
    return value != 0;
}

static void nodelay_is_set_when_it_is_not(void **state)
{
    struct pair pair;

    pair_open(&pair);
    assert_int_equal(nodelay_of(pair.conn), 0);
    conn_set_nodelay(pair.conn, true);
    assert_int_equal(nodelay_of(pair.conn), 1);
    conn_set_nodelay(pair.conn, false);
    assert_int_equal(nodelay_of(pair.conn), 0);
    pair_close(&pair);
}

/* ---- fibers ---- */

static enum wait_result last_wait;
static char fiber_read[64];
static size_t fiber_got;

static void reading_fiber(void *arg)
{
    struct conn *conn = arg;

    for (;;) {
        last_wait = conn_wait_input(conn, clock_now.now_ms + 10000);
        if (last_wait != WAIT_READY) {
            return;
        }
        ssize_t n = conn_read(conn, fiber_read + fiber_got, sizeof(fiber_read) - fiber_got);
        if (n == 0) {
            conn_close(conn);
            return;
        }
        if (n > 0) {
            fiber_got += (size_t) n;
        }
    }
}

static const struct conn_owner fiber_owner = {.input = NULL};

static void a_fiber_reads_until_the_end_and_closes(void **state)
{
    struct pair pair;

    pair_open(&pair);
    pair.conn->owner = &fiber_owner;
    fiber_got = 0;
    assert_int_equal(fiber_start(reading_fiber, pair.conn, NULL), FIBER_WAITING);
    peer_sends(&pair, "one ");
    turn_until(fiber_got == 4);
    peer_sends(&pair, "two");
    turn_until(fiber_got == 7);
    shutdown(pair.peer, SHUT_WR);
    turn_until(conn_pool.used == 0);
    assert_memory_equal(fiber_read, "one two", 7);
    pair.conn = NULL;
    pair_close(&pair);
}

static void hasty_fiber(void *arg)
{
    last_wait = conn_wait_input(arg, clock_now.now_ms + 5);
}

static void a_fiber_waits_no_longer_than_its_deadline(void **state)
{
    struct pair pair;

    pair_open(&pair);
    pair.conn->owner = &fiber_owner;
    assert_false(conn_fill(pair.conn, 512, 512));
    last_wait = WAIT_READY;
    fiber_start(hasty_fiber, pair.conn, NULL);
    turn_until(last_wait == WAIT_TIMED_OUT);
    pair_close(&pair);
}

static int connect_error = -1;

static void connecting_fiber(void *arg)
{
    struct conn *conn = arg;

    last_wait = conn_wait_connected(conn, clock_now.now_ms + 10000);
    connect_error = conn->is_broken ? conn->error : 0;
    conn_close(conn);
}

static void a_connect_ends_well_or_not(void **state)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(name);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listening, (struct sockaddr *) &name, len), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *) &name, &len), 0);
    for (int i = 0; i < 2; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        int result = connect(fd, (struct sockaddr *) &name, len);
        assert_true(result == 0 || errno == EINPROGRESS || errno == ECONNREFUSED);
        struct conn *conn = conn_new(fd, NULL, &fiber_owner, log_main);
        connect_error = -1;
        fiber_start(connecting_fiber, conn, NULL);
        turn_until(connect_error != -1);
        assert_int_equal(last_wait, WAIT_READY);
        assert_int_equal(connect_error, i == 0 ? 0 : ECONNREFUSED);
        if (i == 0) {
            close(listening);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_start_reads_what_came_along),
        TEST(a_start_that_closes_is_never_registered),
        TEST(silent_clients_teach_the_start_to_wait),
        TEST(the_limit_holds_and_numbers_rise),
        TEST(a_huge_limit_costs_nothing),
        TEST(peers_of_all_families_are_kept),
        TEST(a_reset_is_what_the_peer_sees),
        TEST(a_parked_connection_has_no_buffers_and_wakes),
        TEST(the_one_that_rested_longest_comes_first),
        TEST(visitors_may_close),
        TEST(a_walk_in_pieces_visits_each_once),
        TEST(a_deadline_is_told),
        TEST(nodelay_is_set_when_it_is_not),
        TEST(a_fiber_reads_until_the_end_and_closes),
        TEST(a_fiber_waits_no_longer_than_its_deadline),
        TEST(a_connect_ends_well_or_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
