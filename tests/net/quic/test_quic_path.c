/* Paths that lose, reorder and change: handshakes and transfers get through, and the peer's address
 * is validated. */
#include "net/quic/relay.h"

#include <sys/syscall.h>

static char megabyte[1 << 20];

/* The kernel takes nothing at each of so many calls; 0 = never. */
static unsigned busy_every, calls;

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    if (busy_every != 0 && ++calls % busy_every == 0) {
        errno = calls % 2 == 0 ? EAGAIN : ENOBUFS;
        return -1;
    }
    return (int) syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static void transfer(size_t size)
{
    struct quic_stream *stream = quic_stream_open(client_end.connection, false);
    unsigned place = (unsigned) (stream->id / 4);

    quic_stream_write(stream, (struct str){megabyte, size});
    quic_stream_finish(stream);
    turn_until(client_end.streams[place].is_finished || client_end.closed);
    assert_int_equal(client_end.streams[place].got, size);
}

static void connect_through(unsigned lose, unsigned reorder)
{
    server_open();
    relay_open();
    relay.lose_of_1000 = lose;
    relay.reorder_of_1000 = reorder;
    relay.double_of_1000 = reorder / 2;
    connect_client_to(&relay.addr, 0);
    turn_until(client_end.established != 0);
}

static void losses(void **state)
{
    connect_through(50, 50);
    transfer(300000);
    assert_true(relay.lost != 0);
    relay.lose_of_1000 = relay.reorder_of_1000 = 0;
    ends_shut_client();
    relay_close();
}

static void a_busy_kernel(void **state)
{
    calls = 0;
    busy_every = 3;
    server_open();
    connect_client();
    turn_until(client_end.established != 0);
    transfer(1000000);
    busy_every = 0;
    assert_true(calls > 10);
}

static void handshakes_with_many_losses(void **state)
{
    server_open();
    for (unsigned i = 0; i < 8; i++) {
        relay_open();
        relay.random = i * 7919;
        relay.lose_of_1000 = 200;
        connect_client_to(&relay.addr, i % 2 == 0 ? QUIC_VERSION_1 : QUIC_VERSION_2);
        turn_until(client_end.established != 0);
        transfer(1000);
        relay.lose_of_1000 = 0;
        ends_shut_client();
        relay_close();
    }
}

static void a_nat_that_changes_its_mind(void **state)
{
    struct quic_facts facts;
    struct addr before, after;

    connect_through(0, 0);
    transfer(1000);
    turn_until(server_end.connection->is_confirmed);
    quic_peer(server_end.connection, &before);
    relay_rebind();
    transfer(100000);
    turn_until(server_end.connection->paths[0].is_validated);
    quic_facts(server_end.connection, &facts);
    quic_peer(server_end.connection, &after);
    assert_int_equal(facts.counts.migrations, 1);
    assert_int_not_equal(addr_port(&before), addr_port(&after));
    conn_peer(quic_conn(server_end.connection), &after);
    assert_int_not_equal(addr_port(&before), addr_port(&after));
    assert_logged("the QUIC client moved from");
    ends_shut_client();
    relay_close();
}

static void a_client_moves(void **state)
{
    connect_through(0, 0);
    transfer(1000);
    turn_until(server_end.connection->is_confirmed && client_end.connection->is_confirmed);
    relay_move("127.0.0.2");
    transfer(1000);
    turn_until(server_end.connection->paths[0].is_validated);
    server_end.connection->paths[0].mtu_probe =
        1421; /* one of no size that is asked for is under way */
    relay_move("127.0.0.3");
    transfer(300000);
    assert_int_equal(server_end.connection->counts.migrations, 2);
    assert_int_equal(server_end.connection->paths[1].mtu_probe, 0);
    ends_shut_client();
    relay_close();
}

/* A copy of a packet came from an address where nobody answers: the former one is under no limit
 * again, so that probes are sent. */
static void a_move_that_was_forged(void **state)
{
    struct addr other;
    struct datagram_packet third = {.ecn = 0};
    struct quic_path fresh;

    connect_through(0, 0);
    transfer(1000);
    struct quic_connection *c = server_end.connection;
    turn_until(c->is_confirmed);
    assert_true(addr_parse_ip(STR("127.0.0.9"), &other));
    assert_true(addr_parse_ip(STR("127.0.0.10"), &third.peer));
    third.local = quic_addr_get(&c->paths[0].local);
    assert_non_null(quic_path_of(c, &third, c->paths[0].port, &fresh));
    quic_path_init(&c->paths[1], &other, &third.local);
    c->paths[1].port = c->paths[0].port;
    c->paths[1].cid = c->paths[0].cid;
    c->paths[1].is_there = true;
    quic_path_moved(c, &c->paths[1]);
    assert_true(c->recovery.is_amplification_limited);
    /* A second forged address does not take the place of the former one, which is proved. */
    assert_null(quic_path_of(c, &third, c->paths[0].port, &fresh));
    c->paths[0].give_up_us = 0;
    quic_path_expired(c, quic_now_us());
    assert_true(c->paths[0].is_validated);
    assert_false(c->recovery.is_amplification_limited);
    assert_logged("the QUIC client did not answer at its new address");
    transfer(1000);
    ends_shut_client();
    relay_close();
}

static void larger_datagrams_are_found(void **state)
{
    connect_through(0, 0);
    transfer(100000);
    turn_until(server_end.connection->paths[0].mtu == QUIC_DATAGRAM_MOST &&
               client_end.connection->paths[0].mtu == QUIC_DATAGRAM_MOST);
    ends_shut_client();
    relay_close();
}

/* What waits to be sent fills the window all the time. */
static void larger_datagrams_are_found_during_a_long_transfer(void **state)
{
    server_open();
    server_end.echoes = false;
    quic_service.settings.stream_window = quic_service.settings.connection_window = 8 << 20;
    connect_client();
    turn_until(client_end.established != 0);
    struct quic_stream *stream = quic_stream_open(client_end.connection, false);
    for (unsigned i = 0; i < 4; i++) {
        quic_stream_write(stream, (struct str){megabyte, sizeof(megabyte)});
    }
    turn_until(client_end.connection->paths[0].mtu == QUIC_DATAGRAM_MOST);
    assert_true(quic_send_unsent(quic_state_of(stream)->send) > 0);
    ends_shut_client();
}

static void large_datagrams_are_lost_from_now_on(void **state)
{
    connect_through(0, 0);
    transfer(100000);
    turn_until(server_end.connection->paths[0].mtu == QUIC_DATAGRAM_MOST &&
               client_end.connection->paths[0].mtu == QUIC_DATAGRAM_MOST);
    relay.largest = 1300;
    transfer(100000);
    assert_logged("datagrams of 1452 bytes do not reach the QUIC peer any more");
    assert_in_range(client_end.connection->paths[0].mtu, 1200, 1300);
    ends_shut_client();
    relay_close();
}

/* Somebody who cannot read them sends a copy of the client's packets from another address: the
 * server comes back. */
static void packets_from_somewhere_else(void **state)
{
    struct quic_facts facts;
    struct event_source former;

    connect_through(0, 0);
    transfer(1000);
    turn_until(server_end.connection->is_confirmed && client_end.connection->is_confirmed);
    former = relay.to_server;
    relay_open_upstream();
    quic_keep_alive(client_end.connection, 1); /* a packet, which goes by the new way */
    turn_until(server_end.connection->counts.migrations == 1);
    quic_keep_alive(client_end.connection, 0);
    close(relay.to_server.fd);
    event_forget(&relay.to_server);
    relay.to_server = former;
    event_move(&former, &relay.to_server);
    transfer(100000);
    quic_facts(server_end.connection, &facts);
    assert_int_equal(facts.counts.migrations, 2);
    assert_true(server_end.connection->paths[0].is_validated);
    ends_shut_client();
    relay_close();
}

static void a_peer_that_forgot(void **state)
{
    struct quic_connection *c;

    connect_through(0, 0);
    transfer(1000);
    turn_until(client_end.connection->is_confirmed);
    c = server_end.connection;
    quic_end(c, QUIC_END_EVICTED); /* without a word */
    turn_until(server_end.closed != 0 && quic_connections() == 1);
    quic_stream_write(quic_stream_open(client_end.connection, false), STR("anybody there?"));
    turn_until(client_end.closed != 0);
    assert_int_equal(client_end.how.end, QUIC_END_RESET);
    relay_close();
}

static void idle_connections_end(void **state)
{
    client_settings.idle_timeout_ms = 50;
    connect_through(0, 0);
    turn_until(client_end.closed != 0 && server_end.closed != 0);
    assert_int_equal(client_end.how.end, QUIC_END_IDLE);
    assert_int_equal(server_end.how.end, QUIC_END_IDLE);
    relay_close();
}

static void nobody_answers(void **state)
{
    client_settings.handshake_timeout_ms = 200;
    server_open();
    relay_open();
    relay.lose_of_1000 = 1000;
    connect_client_to(&relay.addr, 0);
    turn_until(client_end.closed != 0);
    assert_int_equal(client_end.how.end, QUIC_END_TIMEOUT);
    relay_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUIC_TEST(losses),
        QUIC_TEST(a_busy_kernel),
        QUIC_TEST(handshakes_with_many_losses),
        QUIC_TEST(a_nat_that_changes_its_mind),
        QUIC_TEST(a_client_moves),
        QUIC_TEST(a_move_that_was_forged),
        QUIC_TEST(larger_datagrams_are_found),
        QUIC_TEST(larger_datagrams_are_found_during_a_long_transfer),
        QUIC_TEST(large_datagrams_are_lost_from_now_on),
        QUIC_TEST(packets_from_somewhere_else),
        QUIC_TEST(a_peer_that_forgot),
        QUIC_TEST(idle_connections_end),
        QUIC_TEST(nobody_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
