/* What a connection reads: its buffer, limits, the end, callbacks that close. */
#include "net/pair.h"

#include <errno.h>

static void input_is_read_into_a_buffer(void **state)
{
    struct pair pair;

    pair_open(&pair);
    assert_true(conn_watch(pair.conn));
    peer_sends(&pair, "hello");
    turn_until_input(&pair, 1);
    assert_input(pair.conn, "hello");
    assert_int_equal(pair.conn->in_size, 1024);
    assert_false(pair.conn->is_readable); /* fewer bytes than room: the socket is empty */
    pair_close(&pair);
}

static void consumed_bytes_are_gone_and_the_buffer_can_be_released(void **state)
{
    struct pair pair;

    pair_open(&pair);
    assert_true(conn_watch(pair.conn));
    peer_sends(&pair, "one two");
    turn_until_input(&pair, 1);
    conn_consume(pair.conn, 4);
    assert_input(pair.conn, "two");
    conn_input_release(pair.conn);
    assert_input(pair.conn, "two"); /* not while bytes are unread */
    conn_consume(pair.conn, 3);
    conn_input_release(pair.conn);
    assert_null(pair.conn->in);
    pair_close(&pair);
}

static void nothing_to_read_leaves_no_buffer(void **state)
{
    struct pair pair;

    pair_open(&pair);
    assert_false(conn_fill(pair.conn, 1024, 8192));
    assert_null(pair.conn->in);
    assert_false(pair.conn->is_readable);
    assert_false(pair.conn->is_broken);
    pair_close(&pair);
}

static void the_buffer_grows_up_to_its_limit(void **state)
{
    struct pair pair;
    char text[3000];

    pair_open(&pair);
    pair.fills = false;
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = (char) ('a' + i % 26);
    }
    assert_int_equal(send(pair.peer, text, sizeof(text), 0), sizeof(text));
    await_readable(pair.conn->source.fd);
    assert_true(conn_fill(pair.conn, 512, 2048));
    assert_int_equal(conn_input_len(pair.conn), 512);
    assert_true(pair.conn->is_readable);
    while (conn_fill(pair.conn, 512, 2048)) {
    }
    assert_int_equal(pair.conn->in_size, 2048);
    assert_int_equal(conn_input_len(pair.conn), 2048);
    assert_true(pair.conn->is_readable); /* full, not empty */
    assert_memory_equal(conn_input(pair.conn).data, text, 2048);
    conn_consume(pair.conn, 2000);
    assert_true(conn_fill(pair.conn, 512, 2048)); /* the unread bytes move to the front */
    assert_int_equal(conn_input_len(pair.conn), 1000);
    assert_memory_equal(conn_input(pair.conn).data, text + 2000, 1000);
    pair_close(&pair);
}

static void an_odd_limit_is_kept(void **state)
{
    struct pair pair;
    char text[4000] = {0};

    pair_open(&pair);
    assert_int_equal(send(pair.peer, text, sizeof(text), 0), sizeof(text));
    await_readable(pair.conn->source.fd);
    while (conn_fill(pair.conn, 1000, 2500)) {
    }
    assert_int_equal(conn_input_len(pair.conn), 2500);
    pair_close(&pair);
}

static void a_detached_buffer_takes_its_bytes_and_leaves_the_rest(void **state)
{
    struct pair pair;
    uint32_t size;

    pair_open(&pair);
    assert_true(conn_watch(pair.conn));
    peer_sends(&pair, "head tail");
    turn_until_input(&pair, 1);
    conn_consume(pair.conn, 5);
    char *taken = conn_input_detach(pair.conn, &size);
    assert_memory_equal(taken, "head ", 5);
    assert_int_equal(size, 1024);
    assert_input(pair.conn, "tail");
    conn_consume(pair.conn, 4);
    conn_buffer_free(taken, size);
    taken = conn_input_detach(pair.conn, &size);
    assert_null(pair.conn->in);
    assert_int_equal(conn_input_len(pair.conn), 0);
    conn_buffer_free(taken, size);
    pair_close(&pair);
}

static void bytes_are_replaced_and_the_rest_stays(void **state)
{
    char text[2000];
    struct pair pair;

    memset(text, 'x', sizeof(text));
    pair_open(&pair);
    assert_true(conn_watch(pair.conn));
    peer_sends(&pair, "gone head tail");
    turn_until_input(&pair, 1);
    conn_consume(pair.conn, 5);
    conn_input_replace(pair.conn, 4, STR("a longer head"));
    assert_input(pair.conn, "a longer head tail");
    conn_input_replace(pair.conn, 14, STR(""));
    assert_input(pair.conn, "tail");
    conn_input_replace(pair.conn, 0, (struct str){text, sizeof(text)}); /* another buffer */
    assert_int_equal(conn_input_len(pair.conn), sizeof(text) + 4);
    assert_memory_equal(conn_input(pair.conn).data, text, sizeof(text));
    conn_consume(pair.conn, sizeof(text));
    assert_input(pair.conn, "tail");
    conn_input_replace(pair.conn, 4, STR("end"));
    assert_input(pair.conn, "end");
    pair_close(&pair);
}

static void the_end_is_seen_after_the_last_bytes(void **state)
{
    struct pair pair;

    pair_open(&pair);
    peer_sends(&pair, "bye");
    shutdown(pair.peer, SHUT_WR);
    await_readable(pair.conn->source.fd);
    assert_true(conn_watch(pair.conn));
    turn_until(pair.conn->is_input_closed);
    assert_input(pair.conn, "bye");
    assert_true(pair.conn->is_peer_closed);
    assert_false(pair.conn->is_broken);
    pair_close(&pair);
}

static void a_reset_breaks_the_connection(void **state)
{
    struct pair pair;
    struct linger abort_it = {1, 0};

    pair_open(&pair);
    assert_true(conn_watch(pair.conn));
    setsockopt(pair.peer, SOL_SOCKET, SO_LINGER, &abort_it, sizeof(abort_it));
    close(pair.peer);
    pair.peer = -1;
    turn_until(pair.conn->is_broken);
    assert_int_equal(pair.conn->error, ECONNRESET);
    assert_false(conn_fill(pair.conn, 1024, 1024));
    char byte;
    assert_int_equal(conn_read(pair.conn, &byte, 1), -1);
    assert_int_equal(errno, ECONNRESET);
    pair_close(&pair);
}

static void read_takes_buffered_bytes_first(void **state)
{
    struct pair pair;
    char at[16];

    pair_open(&pair);
    assert_true(conn_watch(pair.conn));
    peer_sends(&pair, "abc");
    turn_until_input(&pair, 1);
    assert_int_equal(conn_read(pair.conn, at, 2), 2);
    assert_memory_equal(at, "ab", 2);
    assert_int_equal(conn_read(pair.conn, at, sizeof(at)), 1);
    assert_int_equal(conn_read(pair.conn, at, sizeof(at)), -1);
    assert_int_equal(errno, EAGAIN);
    pair.fills = false;
    peer_sends(&pair, "def");
    turn_until_input(&pair, 2);
    assert_int_equal(conn_read(pair.conn, at, sizeof(at)), 3);
    assert_memory_equal(at, "def", 3);
    shutdown(pair.peer, SHUT_WR);
    turn_until_input(&pair, 3);
    assert_int_equal(conn_read(pair.conn, at, sizeof(at)), 0);
    assert_int_equal(conn_read(pair.conn, at, sizeof(at)), 0);
    pair_close(&pair);
}

static void input_left_on_the_socket_is_told_again(void **state)
{
    struct pair pair;

    pair_open(&pair);
    pair.fills = false;
    assert_true(conn_watch(pair.conn));
    peer_sends(&pair, "x");
    turn_until_input(&pair, 1);
    assert_true(
        conn_watch(pair.conn)); /* the owner has read nothing and waits: no edge will come */
    turn_until_input(&pair, 2);
    loop_turn(0);
    assert_int_equal(pair.inputs, 2);
    pair_close(&pair);
}

static void paused_input_is_not_read_but_leaving_is_told(void **state)
{
    struct pair pair;

    pair_open(&pair);
    pair.conn->is_input_paused = 1;
    assert_true(conn_watch(pair.conn));
    peer_sends(&pair, "more");
    await_readable(pair.conn->source.fd);
    loop_turn(100);
    assert_int_equal(pair.inputs, 0);
    assert_true(conn_resume_input(pair.conn));
    turn_until_input(&pair, 1);
    assert_input(pair.conn, "more");
    pair.conn->is_input_paused = 1;
    shutdown(pair.peer, SHUT_WR);
    turn_until_input(&pair, 2);
    assert_true(pair.conn->is_peer_closed);
    assert_false(pair.conn->is_input_closed);
    struct linger abort_it = {1, 0};
    setsockopt(pair.peer, SOL_SOCKET, SO_LINGER, &abort_it, sizeof(abort_it));
    close(pair.peer);
    pair.peer = -1;
    turn_until(pair.conn->is_broken);
    assert_int_equal(pair.conn->error, EPIPE); /* what the kernel calls a reset after the end */
    pair_close(&pair);
}

static void a_callback_may_close(void **state)
{
    struct pair pair;

    pair_open(&pair);
    pair.closes = true;
    assert_true(conn_watch(pair.conn));
    peer_sends(&pair, "x");
    turn_until_input(&pair, 1);
    assert_null(pair.conn);
    assert_int_equal(conn_pool.used, 0);
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(input_is_read_into_a_buffer),
        TEST(consumed_bytes_are_gone_and_the_buffer_can_be_released),
        TEST(nothing_to_read_leaves_no_buffer),
        TEST(the_buffer_grows_up_to_its_limit),
        TEST(an_odd_limit_is_kept),
        TEST(a_detached_buffer_takes_its_bytes_and_leaves_the_rest),
        TEST(bytes_are_replaced_and_the_rest_stays),
        TEST(the_end_is_seen_after_the_last_bytes),
        TEST(a_reset_breaks_the_connection),
        TEST(read_takes_buffered_bytes_first),
        TEST(input_left_on_the_socket_is_told_again),
        TEST(paused_input_is_not_read_but_leaving_is_told),
        TEST(a_callback_may_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
