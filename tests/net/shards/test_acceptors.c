/* Accepting: bursts, running short, giving way, and sockets that are adopted while clients come. */
#include "net/service.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct listener listener;
static unsigned accepted_none; /* calls of accept4 that found no connection */

/* In place of the C library's. */
int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    int accepted = (int) syscall(SYS_accept4, fd, addr, len, flags);

    accepted_none += accepted == -1 && errno == EAGAIN;
    return accepted;
}

static const struct accept_options one_each = {0};

static void start(unsigned slots)
{
    listener_init(&listener, "127.0.0.1", free_port());
    assert_true(shards_open(&listener, slots, true, false, &memory_log));
    for (unsigned slot = 0; slot < slots; slot++) {
        assert_true(acceptors_start(&listener, slot, &one_each));
    }
}

/* The client has its answer: the connection was accepted and serves. */
static void client_speaks(int fd)
{
    char byte = 0;

    assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    for (int i = 0; i < 1000 && recv(fd, &byte, 1, MSG_DONTWAIT) != 1; i++) {
        loop_turn(10);
    }
    assert_int_equal(byte, 'x');
}

static void connections_come_with_address_and_options(void **state)
{
    struct sockaddr_in own;
    socklen_t len = sizeof(own);
    struct addr peer;
    int on = 0;

    start(1);
    int fd = client_connect(&listener.addr);
    client_speaks(fd);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &own, &len), 0);
    conn_peer(accepted_last, &peer);
    assert_int_equal(addr_port(&peer), ntohs(own.sin_port));
    assert_true(addr_is_loopback(&peer));
    assert_true(accepted_last->is_tcp);
    len = sizeof(on);
    int server_fd = accepted_last->source.fd;
    assert_int_equal(getsockopt(server_fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    assert_int_equal(on, 1); /* inherited */
    assert_true(fcntl(server_fd, F_GETFL) & O_NONBLOCK);
    assert_int_equal(fcntl(server_fd, F_GETFD), FD_CLOEXEC);
    conn_set_nodelay(accepted_last, false);
    assert_int_equal(getsockopt(server_fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    assert_int_equal(on, 0);
    close(fd);
    turn_until(conn_pool.used == 0);
}

static void multi_accept_takes_all_at_once(void **state)
{
    struct accept_options all = {.multi_accept = true};
    int fds[40];

    listener_init(&listener, "127.0.0.1", free_port());
    assert_true(shards_open(&listener, 1, true, false, &memory_log));
    for (int i = 0; i < 40; i++) {
        fds[i] = client_connect(&listener.addr);
    }
    assert_true(acceptors_start(&listener, 0, &all));
    loop_turn(1000);
    assert_int_equal(accepted_count, 40);
    for (int i = 0; i < 40; i++) {
        close(fds[i]);
    }
    turn_until(conn_pool.used == 0);
}

static void an_empty_queue_costs_no_call_of_accept(void **state)
{
    enum { ROUNDS = 40, MOST = 7 };
    int fds[MOST];

    start(1);
    accepted_none = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int count = 1 + round % MOST;
        int wanted = accepted_count + count;

        for (int i = 0; i < count; i++) {
            fds[i] = client_connect(&listener.addr);
        }
        turn_until(accepted_count == wanted);
        for (int i = 0; i < count; i++) {
            close(fds[i]);
        }
        turn_until(conn_pool.used == 0);
    }
    assert_int_equal(accepted_none, 0);
}

static void a_shared_socket_is_taken_one_by_one(void **state)
{
    struct accept_options shared = {.slots = 4};
    int fds[5];

    listener_init(&listener, "127.0.0.1", free_port());
    assert_true(shards_open(&listener, 4, false, false, &memory_log));
    for (int i = 0; i < 5; i++) {
        fds[i] = client_connect(&listener.addr);
    }
    assert_true(acceptors_start(&listener, 3, &shared));
    for (int i = 1; i <= 5; i++) {
        loop_turn(1000);
        assert_int_equal(accepted_count, i);
    }
    for (int i = 0; i < 5; i++) {
        close(fds[i]);
    }
    turn_until(conn_pool.used == 0);
}

static void stopping_leaves_connections_to_others(void **state)
{
    start(1);
    acceptors_stop();
    int fd = client_connect(&listener.addr);
    loop_turn(0);
    loop_turn(0);
    assert_int_equal(accepted_count, 0);
    assert_int_equal(shard_backlog(listener.shards->fds[0]), 1);
    assert_true(acceptors_start(&listener, 0, &one_each));
    client_speaks(fd);
    close(fd);
    turn_until(conn_pool.used == 0);
}

/* ---- running short ---- */

static void the_one_that_rests_longest_gives_way(void **state)
{
    start(1);
    conn_pool_init(2);
    uint64_t before = conn_pool.given_way;
    int a = client_connect(&listener.addr);
    client_speaks(a);
    int b = client_connect(&listener.addr);
    client_speaks(b);
    client_speaks(a);
    int c = client_connect(&listener.addr);
    client_speaks(c);
    assert_true(client_sees_end(b));
    client_speaks(a);
    assert_int_equal(conn_pool.given_way, before + 1);
    assert_logged("warn|");
    assert_logged("2 worker_connections are not enough, reusing connections");
    close(a);
    close(b);
    close(c);
    turn_until(conn_pool.used == 0);
}

/* Does not rest: it waits for more of a request. */
static void busy_input(struct conn *conn)
{
    while (conn_fill(conn, 512, 512)) {
    }
    if (conn->is_input_closed || conn->is_broken) {
        conn_close(conn);
    }
}

static const struct conn_owner busy_owner = {.input = busy_input};

static void busy_accepted(struct listener *from, int fd, const struct addr *peer)
{
    struct conn *conn = conn_new(fd, peer, &busy_owner, from->log);

    if (conn == NULL) {
        close(fd);
        return;
    }
    accepted_count++;
    assert_true(conn_watch(conn)); /* not conn_start: it would rest until its client speaks */
}

static void with_nothing_to_give_way_accepting_rests_until_one_ends(void **state)
{
    start(1);
    conn_pool_init(1);
    listener.accepted = busy_accepted;
    int a = client_connect(&listener.addr);
    turn_until(accepted_count == 1);
    int b = client_connect(&listener.addr);
    turn_until(times_logged("1 worker_connections are not enough") == 1);
    assert_logged("alert|");
    uint64_t turns = loop_turns();
    uint64_t until = clock_now.now_ms + 100;
    while (clock_now.now_ms < until) {
        loop_turn((int) (until - clock_now.now_ms));
    }
    assert_true(loop_turns() - turns < 10); /* it does not spin */
    assert_int_equal(accepted_count, 1);
    close(a);
    turn_until(accepted_count == 2);
    close(b);
    turn_until(conn_pool.used == 0);
}

/* … but not for ever: what holds the connections may be what waits to come in. */
static void who_finds_no_room_for_long_is_closed(void **state)
{
    uint64_t before = conn_pool.refused;

    start(1);
    conn_pool_init(1);
    listener.accepted = busy_accepted;
    int a = client_connect(&listener.addr);
    turn_until(accepted_count == 1);
    int b = client_connect(&listener.addr);
    turn_until(conn_pool.refused == before + 1);
    assert_true(client_sees_end(b));
    int c = client_connect(&listener.addr);
    turn_until(conn_pool.refused == before + 2);
    assert_int_equal(accepted_count, 1);
    assert_logged("1 worker_connections are not enough");
    close(a);
    turn_until(conn_pool.used == 0);
    int d = client_connect(&listener.addr);
    turn_until(accepted_count == 2);
    close(b);
    close(c);
    close(d);
    turn_until(conn_pool.used == 0);
}

static void without_descriptors_an_idle_connection_gives_way(void **state)
{
    struct rlimit before;
    struct rlimit few;
    int fds[8];

    start(1);
    fds[0] = client_connect(&listener.addr);
    client_speaks(fds[0]);
    fds[1] = client_connect(&listener.addr);
    client_speaks(fds[1]);
    fds[2] = client_connect(&listener.addr); /* waits for its turn */
    int highest = dup(0);
    close(highest);
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = (rlim_t) highest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    client_speaks(fds[2]);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_true(client_sees_end(fds[0]));
    client_speaks(fds[1]);
    assert_logged("crit|");
    assert_logged("accept4() failed (24: Too many open files)");
    for (int i = 0; i < 3; i++) {
        close(fds[i]);
    }
    turn_until(conn_pool.used == 0);
}

static void without_descriptors_and_idle_ones_it_logs_once_and_rests(void **state)
{
    struct rlimit before;
    struct rlimit few;

    start(1);
    listener.accepted = busy_accepted;
    int a = client_connect(&listener.addr);
    turn_until(accepted_count == 1);
    int b = client_connect(&listener.addr);
    int highest = dup(0);
    close(highest);
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = (rlim_t) highest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    uint64_t turns = loop_turns();
    uint64_t until = clock_now.now_ms + 200;
    while (clock_now.now_ms < until) {
        loop_turn((int) (until - clock_now.now_ms));
    }
    assert_true(loop_turns() - turns < 10);
    assert_int_equal(times_logged("Too many open files"), 1);
    setrlimit(RLIMIT_NOFILE, &before);
    close(a);
    turn_until(accepted_count == 2);
    close(b);
    turn_until(conn_pool.used == 0);
}

/* ---- adopted sockets ---- */

static struct shard_counts counts_of(unsigned slot)
{
    struct shard_counts counts;

    shard_counts(slot, &counts);
    return counts;
}

static void a_siblings_queue_is_served(void **state)
{
    static const uint64_t load = 0;
    const struct accept_options two = {.slots = 2, .load = &load};
    struct shard_counts before[2] = {counts_of(0), counts_of(1)};
    int fds[30];

    listener_init(&listener, "127.0.0.1", free_port());
    assert_true(shards_open(&listener, 2, true, false, &memory_log));
    for (int i = 0; i < 30; i++) {
        fds[i] = client_connect(&listener.addr);
    }
    unsigned taken = shard_backlog(listener.shards->fds[1]);
    assert_in_range(taken, 1, 29);
    assert_true(acceptors_start(&listener, 0, &two));
    turn_until(accepted_count == 30);
    assert_int_equal(counts_of(1).taken - before[1].taken, taken);
    assert_int_equal(counts_of(1).own, before[1].own);
    assert_int_equal(counts_of(0).own - before[0].own, 30 - taken);
    assert_int_equal(counts_of(0).taken, before[0].taken);
    /* Shown by the master, though nothing waits: no harm. */
    acceptors_look_at(1);
    acceptors_look_at(7);
    loop_turn(0);
    assert_int_equal(accepted_count, 30);
    for (int i = 0; i < 30; i++) {
        close(fds[i]);
    }
    turn_until(conn_pool.used == 0);
}

static void with_the_last_place_taken_siblings_get_what_comes(void **state)
{
    static const uint64_t load = 0;
    const struct accept_options two = {.slots = 2, .load = &load};
    int fds[40];

    listener_init(&listener, "127.0.0.1", free_port());
    assert_true(shards_open(&listener, 2, true, false, &memory_log));
    conn_pool_init(32);
    uint64_t given_way = conn_pool.given_way;
    assert_true(acceptors_start(&listener, 0, &two));
    for (int i = 0; i < 40; i++) {
        fds[i] = client_connect(&listener.addr);
    }
    turn_until(accepted_count == 32);
    loop_turn(0);
    loop_turn(0);
    assert_int_equal(accepted_count, 32);
    assert_int_equal(times_logged("worker_connections are not enough"), 0);
    /* A place alone would be fought for; from three on this worker is in again. */
    close(fds[0]);
    close(fds[1]);
    turn_until(conn_pool.used == 30);
    loop_turn(0);
    assert_int_equal(accepted_count, 32);
    close(fds[2]);
    turn_until(accepted_count == 35);
    assert_int_equal(conn_pool.given_way, given_way);
    for (int i = 3; i < 40; i++) {
        close(fds[i]);
    }
    turn_until(conn_pool.used == 0);
}

static int retired;
static bool is_retired[8]; /* by slot */

/* What a master does: ends them from the top. */
static void on_retired(void *arg)
{
    struct shard_set *set = listener.shards;

    retired++;
    is_retired[(uintptr_t) arg] = true;
    while (set->count > set->wanted && is_retired[set->count - 1]) {
        is_retired[set->count - 1] = false;
        shard_close_top(set);
        shard_top_retired(set, set->count, &memory_log);
    }
}

/*
 * A child that connects, speaks and closes in a circle until told to end; its status counts
 * failures.
 */
static pid_t hammer(int *stop)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child != 0) {
        close(ends[0]);
        *stop = ends[1];
        return child;
    }
    close(ends[1]);
    int failures = 0;
    int done = 0;
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    while (poll(&end, 1, 0) == 0 && failures < 100) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        char byte;
        bool is_good = connect(fd, &listener.addr.any, listener.addr.len) == 0 &&
                       send(fd, "x", 1, MSG_NOSIGNAL) == 1 && recv(fd, &byte, 1, 0) == 1;

        failures += !is_good;
        done++;
        close(fd);
    }
    _exit(done < 10 ? 101 : failures);
}

static void shrinking_under_load_loses_nobody(void **state)
{
    pid_t clients[3];
    int stops[3];
    int status;

    start(4);
    for (int i = 0; i < 3; i++) {
        clients[i] = hammer(&stops[i]);
    }
    retired = 0;
    for (int round = 0; round < 2; round++) {
        struct shard_set *set = listener.shards;
        int seen = accepted_count;

        turn_until(accepted_count > seen + 50);
        /* All workers but the first are gone: their sockets are adopted. */
        acceptors_stop();
        assert_true(acceptors_start(&listener, 0, &one_each));
        assert_true(shards_open(&listener, 1, true, false, &memory_log));
        assert_true(shard_steer(set, set->wanted, &memory_log));
        for (unsigned slot = set->wanted; slot < set->count; slot++) {
            assert_true(acceptor_adopt(&listener, slot, dup(set->fds[slot]), on_retired,
                                       (void *) (uintptr_t) slot));
        }
        assert_int_equal(acceptors_retiring(), 3);
        turn_until(retired == 3 * (round + 1));
        assert_int_equal(acceptors_retiring(), 0);
        assert_int_equal(set->count, 1);
        seen = accepted_count;
        turn_until(accepted_count > seen + 50);
        /* And grow again. */
        assert_true(shards_open(&listener, 4, true, false, &memory_log));
        for (unsigned slot = 1; slot < 4; slot++) {
            assert_true(acceptors_start(&listener, slot, &one_each));
        }
        assert_true(shard_steer(set, set->wanted, &memory_log));
    }
    for (int i = 0; i < 3; i++) {
        close(stops[i]);
    }
    for (int i = 0; i < 3; i++) {
        pid_t ended;

        while ((ended = waitpid(clients[i], &status, WNOHANG)) == 0) {
            loop_turn(10);
        }
        assert_int_equal(ended, clients[i]);
        assert_int_equal(status, 0);
    }
    turn_until(conn_pool.used == 0);
}

static void a_handshake_under_way_is_waited_for(void **state)
{
    enum { CLIENTS = 30 };

    listener_init(&listener, "127.0.0.1", free_port());
    /* With a deferred accept the handshake stays open until the first byte. */
    listener.options.is_deferred = true;
    assert_true(shards_open(&listener, 2, true, false, &memory_log));
    struct shard_set *set = listener.shards;
    int fds[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = client_connect(&listener.addr); /* one half of them at slot 1 */
    }
    assert_int_equal(shard_backlog(set->fds[1]), 0);
    int under_way = shard_handshakes(&listener.addr);
    if (under_way == -1) {
        for (int i = 0; i < CLIENTS; i++) {
            close(fds[i]);
        }
        skip(); /* no sock_diag here */
    }
    assert_int_equal(under_way, CLIENTS);
    assert_true(acceptors_start(&listener, 0, &one_each));
    set->wanted = 1;
    assert_true(shard_steer(set, 1, &memory_log));
    int adopted = dup(set->fds[1]);
    retired = 0;
    assert_true(acceptor_adopt(&listener, 1, adopted, on_retired, (void *) 1));
    uint64_t until = clock_now.now_ms + 300;
    while (clock_now.now_ms < until) {
        loop_turn(50);
    }
    assert_int_equal(retired, 0);
    for (int i = 0; i < CLIENTS; i++) {
        client_speaks(fds[i]);
    }
    assert_int_equal(accepted_count, CLIENTS);
    turn_until(retired == 1);
    for (int i = 0; i < CLIENTS; i++) {
        client_speaks(fds[i]);
        close(fds[i]);
    }
    turn_until(conn_pool.used == 0);
}

static void a_retired_socket_ends_for_every_process(void **state)
{
    start(2);
    struct shard_set *set = listener.shards;
    acceptors_stop();
    assert_true(acceptors_start(&listener, 0, &one_each));
    int copy = dup(set->fds[1]); /* an old worker that is stuck still has it */
    int adopted = dup(copy);
    set->wanted = 1;
    assert_true(shard_steer(set, 1, &memory_log));
    retired = 0;
    assert_true(acceptor_adopt(&listener, 1, adopted, on_retired, (void *) 1));
    turn_until(retired == 1);
    /* Now the kernel has one socket only: nobody lands on the copy. */
    for (int i = 0; i < 40; i++) {
        int fd = client_connect(&listener.addr);

        client_speaks(fd);
        close(fd);
    }
    turn_until(conn_pool.used == 0);
    close(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVICE_TEST(connections_come_with_address_and_options),
        SERVICE_TEST(multi_accept_takes_all_at_once),
        SERVICE_TEST(an_empty_queue_costs_no_call_of_accept),
        SERVICE_TEST(a_shared_socket_is_taken_one_by_one),
        SERVICE_TEST(stopping_leaves_connections_to_others),
        SERVICE_TEST(the_one_that_rests_longest_gives_way),
        SERVICE_TEST(with_nothing_to_give_way_accepting_rests_until_one_ends),
        SERVICE_TEST(who_finds_no_room_for_long_is_closed),
        SERVICE_TEST(without_descriptors_an_idle_connection_gives_way),
        SERVICE_TEST(without_descriptors_and_idle_ones_it_logs_once_and_rests),
        SERVICE_TEST(a_siblings_queue_is_served),
        SERVICE_TEST(with_the_last_place_taken_siblings_get_what_comes),
        SERVICE_TEST(shrinking_under_load_loses_nobody),
        SERVICE_TEST(a_handshake_under_way_is_waited_for),
        SERVICE_TEST(a_retired_socket_ends_for_every_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
