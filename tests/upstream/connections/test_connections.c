/* Tests of connections to peers: opened, kept, shared, in turn, closed. */
#include "upstream/opening.h"

#include <fcntl.h>
#include <sys/un.h>

#include "upstream/connections/connections.h"

static void a_link_is_kept_and_used_again(void **state)
{
    start_peer("", "");
    struct opening first = open_tagged(&here);
    assert_false(first.connection->is_reused);
    assert_int_equal(first.connection->requests, 1);
    assert_int_equal(peer_open(first.connection->cell), 1);
    struct conn *conn = first.connection->conn;
    upstream_connection_keep(first.connection);
    over(&first);
    struct opening second = open_tagged(&here);
    assert_true(second.connection->is_reused);
    assert_ptr_equal(second.connection->conn, conn);
    assert_ptr_equal(conn->owner, &upstream_connection_owner);
    assert_int_equal(second.connection->requests, 2);
    upstream_connection_close(second.connection);
    over(&second);
    assert_int_equal(conn_pool.used, 0);
    assert_int_equal(peer_open(local_of(0)->cell), 0);
    assert_false(request(&here));
    stop_peer();
}

static void places_do_not_exchange_links(void **state)
{
    start_peer("", "");
    assert_false(request(&here));
    assert_false(request(&there));
    assert_true(request(&here));
    stop_peer();

    /* Without `local` they share a pool, but not what they say on a connection. */
    start_peer("", "keepalive 1;");
    assert_false(request(&here));
    assert_false(request(&there));
    assert_int_equal(local_of(0)->idle, 1);
    assert_false(request(&here));
    stop_peer();
}

/* Whether a request with these options finds a link that one with others has left. */
static bool is_exchanged(struct upstream_connection_options first,
                         struct upstream_connection_options second)
{
    start_peer("", "keepalive 4;");
    struct opening opening = open_with(first, 10000);
    upstream_connection_keep(opening.connection);
    over(&opening);
    opening = open_with(second, 10000);
    assert_int_equal(opening.result, UPSTREAM_CONNECT_OK);
    bool is_exchanged = opening.connection->is_reused;
    upstream_connection_keep(opening.connection);
    over(&opening);
    stop_peer();
    return is_exchanged;
}

static void links_of_other_kinds_are_not_exchanged(void **state)
{
    struct addr one, other;

    assert_true(addr_parse_ip(STR("127.0.0.2"), &one));
    assert_true(addr_parse_ip(STR("127.0.0.3"), &other));
    assert_true(is_exchanged((struct upstream_connection_options){.local = &one},
                             (struct upstream_connection_options){.local = &one}));
    assert_false(is_exchanged((struct upstream_connection_options){.local = &one},
                              (struct upstream_connection_options){.local = &other}));
    assert_false(is_exchanged((struct upstream_connection_options){.local = &one},
                              (struct upstream_connection_options){0}));
    assert_false(is_exchanged((struct upstream_connection_options){0},
                              (struct upstream_connection_options){.local = &one}));
    assert_false(is_exchanged((struct upstream_connection_options){.language = &here},
                              (struct upstream_connection_options){.language = &there}));
}

static void fresh_when_it_is_wanted(void **state)
{
    start_peer("", "");
    request(&here);
    struct opening opening =
        open_with((struct upstream_connection_options){.tag = &here, .wants_fresh = true}, 10000);
    assert_false(opening.connection->is_reused);
    upstream_connection_close(opening.connection);
    over(&opening);
    stop_peer();
}

/* A request that may go once: was it on a kept connection? */
static bool once(void)
{
    struct opening opening =
        open_with((struct upstream_connection_options){.tag = &here, .is_unrepeatable = true},
                  10000);
    assert_int_equal(opening.result, UPSTREAM_CONNECT_OK);
    bool is_reused = opening.connection->is_reused;

    upstream_connection_keep(opening.connection);
    over(&opening);
    return is_reused;
}

static void what_goes_once_takes_a_kept_link(void **state)
{
    start_peer("", "");
    assert_false(once());
    clock_now.now_ms += 50000;
    assert_true(once());
    stop_peer();
}

static void the_peer_names_the_time(void **state)
{
    start_peer("", "");
    struct opening opening = open_tagged(&here);
    opening.connection->keeps_ms = 5000;
    upstream_connection_keep(opening.connection);
    over(&opening);
    clock_now.now_ms += 3900;
    assert_true(once());
    clock_now.now_ms += 4100;
    assert_false(once());
    assert_int_equal(conn_pool.used, 1); /* the one that was passed over is closed */
    clock_now.now_ms += 50000;
    assert_true(once()); /* this one's time was not named */
    stop_peer();
}

static void a_peer_that_ends_idle_links(void **state)
{
    start_peer("", "");
    request(&here);
    pool_note_end(local_of(0), 4000);
    pool_note_end(local_of(0), 9000);
    clock_now.now_ms += 2900;
    assert_true(once());
    clock_now.now_ms += 3100;
    assert_false(once());
    assert_int_equal(conn_pool.used, 1);
    clock_now.now_ms += 20000;
    assert_true(request(&here)); /* what may be repeated takes any */
    clock_now.now_ms += 50000;
    assert_true(once()); /* that was long ago */
    stop_peer();
}

static void the_end_of_an_idle_link_is_noticed(void **state)
{
    start_peer("", "");
    request(&here);
    close(accept_one(listening));
    turn_until(conn_pool.used == 0);
    assert_false(once());
    /* The peer ended the last one when it was younger than this one is; how young depends on the
     * machine. */
    clock_now.now_ms += 10000;
    assert_false(once());
    stop_peer();
}

static void a_peer_that_ends_a_link_in_use(void **state)
{
    start_peer("", "");
    struct opening opening = open_tagged(&here);
    upstream_connection_note_end(&opening.asker.pick);
    upstream_connection_keep(opening.connection);
    over(&opening);
    assert_false(once());
    assert_false(once());
    assert_int_equal(conn_pool.used, 1);
    clock_now.now_ms += 61000;
    request(&here);
    assert_true(once());
    stop_peer();
}

static void where_kept_links_were_not_promised(void **state)
{
    struct upstream_connection_options options = {.tag = &here,
                                                  .is_unrepeatable = true,
                                                  .is_unpromised = true};

    start_peer("", "");
    request(&here);
    struct opening opening = open_with(options, 10000);
    assert_false(opening.connection->is_reused);
    upstream_connection_keep(opening.connection);
    over(&opening);
    assert_int_equal(conn_pool.used, 1);
    stop_peer();
}

static void idle_links_of_any_kind_give_way(void **state)
{
    start_peer("", "keepalive 4;");
    request(&here);
    clock_now.now_ms++;
    request(&there);
    struct opening waiting = open_with((struct upstream_connection_options){.tag = &port}, 10000);
    assert_int_equal(local_of(0)->idle, 2);
    assert_true(upstream_connection_give_way(waiting.connection));
    struct opening second = open_tagged(&there);
    assert_true(second.connection->is_reused); /* the other one was idle longer */
    assert_false(upstream_connection_give_way(waiting.connection));
    upstream_connection_close(second.connection);
    over(&second);
    upstream_connection_close(waiting.connection);
    over(&waiting);
    stop_peer();
}

static void the_one_that_rested_longest_gives_way(void **state)
{
    struct opening openings[3];

    start_peer("", "keepalive 2 local;");
    for (unsigned i = 0; i < 3; i++) {
        openings[i] = open_tagged(&here);
    }
    struct conn *last = openings[2].connection->conn;
    for (unsigned i = 0; i < 3; i++) {
        upstream_connection_keep(openings[i].connection);
        over(&openings[i]);
    }
    assert_int_equal(conn_pool.used, 2);
    struct opening next = open_tagged(&here);
    assert_ptr_equal(next.connection->conn, last);
    upstream_connection_close(next.connection);
    over(&next);
    stop_peer();
}

static void none_are_kept_without_keepalive(void **state)
{
    start_peer("", "keepalive 0;");
    request(&here);
    assert_int_equal(conn_pool.used, 0);
    stop_peer();
}

static void requests_on_a_link_are_limited(void **state)
{
    start_peer("", "keepalive_requests 2;");
    assert_false(request(&here));
    assert_true(request(&here));
    assert_int_equal(conn_pool.used, 0);
    stop_peer();
}

static void the_life_of_a_link_is_limited(void **state)
{
    start_peer("", "keepalive_time 10s;");
    request(&here);
    clock_now.now_ms += 10001;
    assert_true(request(&here));
    assert_int_equal(conn_pool.used, 0);
    stop_peer();
}

static void the_rest_of_a_link_is_limited(void **state)
{
    start_peer("", "keepalive_timeout 20ms;");
    request(&here);
    assert_int_equal(conn_pool.used, 1);
    turn_until(conn_pool.used == 0);
    stop_peer();
}

static void an_idle_link_ends_with_its_peer(void **state)
{
    start_peer("", "");
    request(&here);
    int fd = accept_one(listening);
    close(fd);
    turn_until(conn_pool.used == 0);

    /* Bytes that nobody asked for are no answer to what comes next. */
    request(&here);
    fd = accept_one(listening);
    assert_int_equal(write(fd, "x", 1), 1);
    turn_until(conn_pool.used == 0);
    close(fd);
    stop_peer();
}

static void what_came_before_it_was_kept_is_noticed(void **state)
{
    start_peer("", "");
    struct opening opening = open_tagged(&here);
    int fd = accept_one(listening);
    assert_int_equal(write(fd, "ab", 2), 2);
    struct conn *conn = opening.connection->conn;
    turn_until(conn->is_readable);
    assert_true(conn_fill(conn, 1024, 1024));
    conn_consume(conn, 1); /* one byte is left */
    upstream_connection_keep(opening.connection);
    assert_int_equal(conn_pool.used, 0);
    over(&opening);
    close(fd);

    /* Unread on the socket: the loop told of it, nobody has read it. */
    opening = open_tagged(&here);
    fd = accept_one(listening);
    assert_int_equal(write(fd, "ab", 2), 2);
    turn_until(opening.connection->conn->is_readable);
    upstream_connection_keep(opening.connection);
    over(&opening);
    assert_false(request(&here));
    close(fd);
    stop_peer();
}

static void unsent_output_is_doubt(void **state)
{
    start_peer("", "");
    struct opening opening = open_tagged(&here);
    conn_write(opening.connection->conn, STR("half a request"));
    upstream_connection_keep(opening.connection);
    assert_int_equal(conn_pool.used, 0);
    over(&opening);
    stop_peer();
}

static void refusal_and_time_out(void **state)
{
    struct upstream_connection_options options = {0};

    start_peer("", "");
    close(listening);
    listening = -1;
    struct opening refused = open_with(options, 10000);
    assert_int_equal(refused.result, UPSTREAM_CONNECT_FAILED);
    assert_int_equal(refused.error, ECONNREFUSED);
    assert_null(refused.connection);
    assert_true(was_logged("[error] connect() failed (111: Connection refused)"));
    assert_int_equal(peer_open(local_of(0)->cell), 0);
    over(&refused);
    stop_peer();

    /* A full queue of connections answers no further one. */
    int full = listen_somewhere(&port, 0);
    char text[128];
    snprintf(text, sizeof(text), "upstream u { server 127.0.0.1:%u; }", port);
    start(text);
    group = group_named("u");
    struct opening openings[2];
    openings[0] = open_with(options, 10000);
    openings[1] = open_with(options, 100);
    if (openings[1].result ==
        UPSTREAM_CONNECT_OK) { /* the kernel lets one more in than it was told */
        upstream_connection_close(openings[1].connection);
        over(&openings[1]);
        openings[1] = open_with(options, 100);
    }
    assert_int_equal(openings[1].result, UPSTREAM_CONNECT_TIMED_OUT);
    assert_int_equal(openings[1].error, ETIMEDOUT);
    assert_true(was_logged("[error] upstream timed out (110: Connection timed out)"));
    upstream_connection_close(openings[0].connection);
    over(&openings[0]);
    over(&openings[1]);
    finish();
    close(full);
}

static void unix_sockets(void **state)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    char text[256];

    snprintf(name.sun_path, sizeof(name.sun_path), "%s/socket", directory);
    snprintf(text, sizeof(text), "upstream u { server unix:%s; }", name.sun_path);
    start(text);
    group = group_named("u");
    struct opening none = open_with((struct upstream_connection_options){0}, 10000);
    assert_int_equal(none.result, UPSTREAM_CONNECT_FAILED);
    assert_int_equal(none.error, ENOENT);
    assert_true(was_logged("[crit] connect() to unix:"));
    over(&none);

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *) &name, sizeof(name)), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_false(request(&here));
    assert_true(request(&here));
    finish();
    close(fd);
    unlink(name.sun_path);
}

/* One that says this as soon as it is up. */
static struct opening open_saying(struct str first)
{
    return open_with((struct upstream_connection_options){.wants_fresh = true, .first = first},
                     10000);
}

static void what_is_said_first(void **state)
{
    static char much[8 * 1024 * 1024];
    char room[16];

    start_peer("", "");
    struct opening opening = open_saying(STR("hello"));
    assert_int_equal(opening.result, UPSTREAM_CONNECT_OK);
    assert_int_equal(opening.connection->conn->sent, 5);
    int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(recv(fd, room, sizeof(room), MSG_DONTWAIT), 5);
    assert_memory_equal(room, "hello", 5);
    upstream_connection_close(opening.connection);
    over(&opening);
    close(fd);

    /* What the socket does not take waits in the queue. */
    opening = open_saying((struct str){much, sizeof(much)});
    assert_int_equal(opening.result, UPSTREAM_CONNECT_OK);
    assert_in_range(opening.connection->conn->sent, 1, sizeof(much) - 1);
    assert_int_equal(opening.connection->conn->sent + conn_unsent(opening.connection->conn),
                     sizeof(much));
    upstream_connection_close(opening.connection);
    over(&opening);

    close(listening);
    listening = -1;
    opening = open_saying(STR("hello"));
    assert_int_equal(opening.result, UPSTREAM_CONNECT_FAILED);
    assert_int_equal(opening.error, ECONNREFUSED);
    assert_true(was_logged("[error] connect() failed (111: Connection refused)"));
    over(&opening);
    stop_peer();
}

static void where_it_comes_from(void **state)
{
    struct addr local, foreign;
    struct sockaddr_in name;
    socklen_t len = sizeof(name);

    assert_true(addr_parse_ip(STR("127.0.0.2"), &local));
    assert_true(addr_parse_ip(STR("8.8.8.8"), &foreign));
    start_peer("", "");
    struct opening bound =
        open_with((struct upstream_connection_options){.local = &local, .keepalive = true}, 10000);
    assert_int_equal(bound.result, UPSTREAM_CONNECT_OK);
    int fd = accept4(listening, (struct sockaddr *) &name, &len, SOCK_CLOEXEC);
    assert_int_equal(ntohl(name.sin_addr.s_addr), 0x7f000002);
    int on = 0;
    len = sizeof(on);
    getsockopt(bound.connection->conn->source.fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len);
    assert_int_equal(on, 1);
    upstream_connection_close(bound.connection);
    over(&bound);
    close(fd);

    struct opening none = open_with((struct upstream_connection_options){.local = &foreign}, 10000);
    assert_int_equal(none.result, UPSTREAM_CONNECT_ERROR);
    assert_true(was_logged("[crit] bind(8.8.8.8) failed (99: "));
    over(&none);
    stop_peer();
}

/* ---- as many as the peer allows ---- */

static const struct upstream_connection_options two_at_most = {.tag = &here, .open_max = 2};

static void start_opening(struct opening *opening, struct upstream_connection_options options)
{
    *opening = (struct opening){.options = options, .timeout_ms = 10000};
    fiber_start(open_now, opening, NULL);
}

static void connections_in_turn(void **state)
{
    struct opening openings[4];

    start_peer("", "");
    for (unsigned i = 0; i < 4; i++) {
        start_opening(&openings[i], two_at_most);
    }
    turn_until(openings[0].is_over && openings[1].is_over);
    loop_turn(0);
    assert_false(openings[2].is_over || openings[3].is_over);
    assert_int_equal(peer_waiting(local_of(0)->cell), 2);
    struct conn *kept = openings[1].connection->conn;
    upstream_connection_keep(openings[1].connection);
    over(&openings[1]);
    turn_until(openings[2].is_over);
    assert_ptr_equal(openings[2].connection->conn, kept);
    assert_false(openings[3].is_over);
    upstream_connection_close(openings[0].connection);
    over(&openings[0]);
    turn_until(openings[3].is_over);
    assert_false(openings[3].connection->is_reused);
    for (unsigned i = 2; i < 4; i++) {
        upstream_connection_keep(openings[i].connection);
        over(&openings[i]);
    }
    assert_int_equal(peer_open(local_of(0)->cell), 2);
    assert_int_equal(peer_waiting(local_of(0)->cell), 0);

    /* Idle ones of another place give way. */
    struct opening other =
        open_with((struct upstream_connection_options){.tag = &there, .open_max = 2}, 10000);
    assert_int_equal(other.result, UPSTREAM_CONNECT_OK);
    assert_int_equal(peer_open(local_of(0)->cell), 2);
    upstream_connection_keep(other.connection);
    over(&other);
    stop_peer();
}

static void waiting_for_a_turn_has_an_end(void **state)
{
    start_peer("", "");
    struct opening first = open_with((struct upstream_connection_options){.open_max = 1}, 10000);
    struct opening second = open_with((struct upstream_connection_options){.open_max = 1}, 30);
    assert_int_equal(second.result, UPSTREAM_CONNECT_TIMED_OUT);
    assert_int_equal(peer_waiting(local_of(0)->cell), 0);
    upstream_connection_close(first.connection);
    over(&first);
    over(&second);
    stop_peer();
}

static void other_workers_get_their_share(void **state)
{
    start_peer("worker_processes 2;", "");
    struct peer_use *other = &local_of(0)->cell->use[1];
    struct opening opening = open_with(two_at_most, 10000);
    atomic_store(&other->open, 1);
    atomic_store(&other->waiting, 1);
    upstream_connection_keep(opening.connection); /* it is the last that the peer allows */
    over(&opening);
    assert_int_equal(conn_pool.used, 0);

    /* One that rests already is closed for them, too. */
    atomic_store(&other->open, 0);
    opening = open_with(two_at_most, 10000);
    upstream_connection_keep(opening.connection);
    over(&opening);
    assert_int_equal(conn_pool.used, 1);
    atomic_store(&other->open, 1);
    turn_until(conn_pool.used == 0);
    atomic_store(&other->open, 2);

    /* And what they close is noticed here. */
    struct opening waiting;
    start_opening(&waiting, two_at_most);
    loop_turn(0);
    assert_false(waiting.is_over);
    atomic_store(&other->open, 1);
    turn_until(waiting.is_over);
    assert_int_equal(waiting.result, UPSTREAM_CONNECT_OK);
    upstream_connection_close(waiting.connection);
    over(&waiting);
    stop_peer();
}

/* ---- shared ---- */

static int states_freed;

static void free_state(struct upstream_connection *connection)
{
    states_freed++;
}

static void a_link_carries_many_requests(void **state)
{
    start_peer("", "");
    states_freed = 0;
    atomic_store(&local_of(0)->cell->multiplexes, 1);
    struct opening first = open_tagged(&here);
    first.connection->users_max = 2;
    first.connection->state = &states_freed;
    first.connection->state_free = free_state;
    struct opening second = open_tagged(&here);
    assert_ptr_equal(second.connection, first.connection);
    assert_int_equal(first.connection->users, 2);
    struct opening third = open_tagged(&here);
    assert_ptr_not_equal(third.connection, first.connection);
    upstream_connection_keep(second.connection);
    over(&second);
    assert_int_equal(first.connection->users, 1);
    upstream_connection_close(third.connection);
    over(&third);
    upstream_connection_keep(first.connection);
    over(&first);
    struct opening again = open_tagged(&here);
    assert_ptr_equal(again.connection->state, &states_freed);

    /* In doubt: nobody joins any more, and it ends with the last user. */
    second = open_tagged(&here);
    assert_ptr_equal(second.connection, again.connection);
    upstream_connection_close(second.connection);
    over(&second);
    assert_int_equal(states_freed, 0);
    third = open_tagged(&here);
    assert_ptr_not_equal(third.connection, again.connection);
    upstream_connection_keep(again.connection);
    over(&again);
    assert_int_equal(states_freed, 1);
    upstream_connection_close(third.connection);
    over(&third);
    stop_peer();
}

/* ---- when connections run out ---- */

static void idle_links_give_way(void **state)
{
    start_peer("", "");
    request(&here);
    conn_pool_init(1);
    struct opening opening = open_tagged(&there);
    assert_int_equal(conn_pool.used, 1);
    assert_int_equal(conn_pool.given_way, 1);
    struct opening none = open_with((struct upstream_connection_options){0}, 10000);
    assert_int_equal(none.result, UPSTREAM_CONNECT_ERROR);
    assert_true(was_logged("[alert] 1 worker_connections are not enough"));
    over(&none);
    upstream_connection_close(opening.connection);
    over(&opening);
    stop_peer();
}

static void a_worker_that_quits_keeps_nothing(void **state)
{
    start_peer("", "");
    struct opening opening = open_tagged(&here);
    request(&there);
    assert_int_equal(conn_pool.used, 2);
    worker_is_quitting = true;
    upstream_worker_quit(generation, &upstream_http);
    assert_int_equal(conn_pool.used, 1);
    upstream_connection_keep(opening.connection);
    assert_int_equal(conn_pool.used, 0);
    worker_is_quitting = false;
    over(&opening);
    stop_peer();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_is_kept_and_used_again),
        cmocka_unit_test(places_do_not_exchange_links),
        cmocka_unit_test(links_of_other_kinds_are_not_exchanged),
        cmocka_unit_test(fresh_when_it_is_wanted),
        cmocka_unit_test(what_goes_once_takes_a_kept_link),
        cmocka_unit_test(the_peer_names_the_time),
        cmocka_unit_test(a_peer_that_ends_idle_links),
        cmocka_unit_test(the_end_of_an_idle_link_is_noticed),
        cmocka_unit_test(a_peer_that_ends_a_link_in_use),
        cmocka_unit_test(where_kept_links_were_not_promised),
        cmocka_unit_test(idle_links_of_any_kind_give_way),
        cmocka_unit_test(the_one_that_rested_longest_gives_way),
        cmocka_unit_test(none_are_kept_without_keepalive),
        cmocka_unit_test(requests_on_a_link_are_limited),
        cmocka_unit_test(the_life_of_a_link_is_limited),
        cmocka_unit_test(the_rest_of_a_link_is_limited),
        cmocka_unit_test(an_idle_link_ends_with_its_peer),
        cmocka_unit_test(what_came_before_it_was_kept_is_noticed),
        cmocka_unit_test(unsent_output_is_doubt),
        cmocka_unit_test(refusal_and_time_out),
        cmocka_unit_test(unix_sockets),
        cmocka_unit_test(what_is_said_first),
        cmocka_unit_test(where_it_comes_from),
        cmocka_unit_test(connections_in_turn),
        cmocka_unit_test(waiting_for_a_turn_has_an_end),
        cmocka_unit_test(other_workers_get_their_share),
        cmocka_unit_test(a_link_carries_many_requests),
        cmocka_unit_test(idle_links_give_way),
        cmocka_unit_test(a_worker_that_quits_keeps_nothing),
    };

    return upstream_tests_run("links", tests);
}
