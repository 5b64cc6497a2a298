/* The output queue: order, partial writes, files, references, limits, transports, fibers. */
#include "net/pair.h"

#include <errno.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fiber/fiber.h"
#include "net/conn/private.h"

#define MEGABYTE (1024 * 1024)

static unsigned char pattern(size_t i)
{
    return (unsigned char) (i * 7 + i / 251);
}

/* A file of `size` bytes of the pattern, starting at index `first` of it. */
static int file_new(size_t first, size_t size)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    unsigned char *bytes = malloc(size);

    for (size_t i = 0; i < size; i++) {
        bytes[i] = pattern(first + i);
    }
    assert_int_equal(write(fd, bytes, size), size);
    free(bytes);
    return fd;
}

/*
 * Reads from the peer while the loop turns, until `size` bytes came, and compares them with the
 * pattern.
 */
static void expect_pattern(struct pair *pair, size_t size)
{
    static unsigned char at[65536];
    size_t got = 0;

    while (got < size) {
        ssize_t n = recv(pair->peer, at, sizeof(at), MSG_DONTWAIT);
        if (n == -1) {
            assert_int_equal(errno, EAGAIN);
            loop_turn(10);
            continue;
        }
        assert_true(n > 0);
        for (ssize_t i = 0; i < n; i++) {
            if (at[i] != pattern(got + (size_t) i)) {
                fail_msg("byte %zu is wrong", got + (size_t) i);
            }
        }
        got += (size_t) n;
    }
    assert_int_equal(got, size);
}

static void expect_text(struct pair *pair, const char *text)
{
    char at[4096];
    size_t got = 0;

    while (got < strlen(text)) {
        ssize_t n = recv(pair->peer, at + got, sizeof(at) - got, 0);
        assert_true(n > 0);
        got += (size_t) n;
    }
    at[got] = '\0';
    assert_string_equal(at, text);
}

static int released;

static void count_release(void *arg)
{
    released += *(int *) arg;
}

static int one = 1;
static int ten = 10;

/* ---- writing ---- */

static void small_writes_share_a_chunk_and_a_send(void **state)
{
    struct pair pair;

    pair_open(&pair);
    memcpy(conn_out_room(pair.conn, 100), "one ", 4);
    conn_out_commit(pair.conn, 4);
    const char *first = pair.conn->out->at;
    memcpy(conn_out_room(pair.conn, 100), "two ", 4);
    conn_out_commit(pair.conn, 4);
    conn_write(pair.conn, STR("three"));
    assert_ptr_equal(pair.conn->out, pair.conn->out_last);
    assert_memory_equal(first, "one two three", 13);
    assert_int_equal(conn_unsent(pair.conn), 13);
    assert_true(conn_flush(pair.conn));
    assert_int_equal(conn_unsent(pair.conn), 0);
    assert_null(pair.conn->out);
    expect_text(&pair, "one two three");
    pair_close(&pair);
}

static void a_flush_put_off_leaves_at_the_end_of_the_turn(void **state)
{
    struct pair pair;

    pair_open(&pair);
    conn_write(pair.conn, STR("late"));
    conn_flush_later(pair.conn);
    assert_int_equal(conn_unsent(pair.conn), 4);
    loop_turn(0);
    assert_int_equal(conn_unsent(pair.conn), 0);
    assert_int_equal(pair.drained, 0); /* it never had to wait */
    expect_text(&pair, "late");
    pair_close(&pair);
}

static void answer(struct conn *conn)
{
    while (conn_fill(conn, 1024, 1024)) {
    }
    struct str in = conn_input(conn);
    conn_write(conn, in);
    conn_consume(conn, in.len);
    conn_flush_later(conn);
}

static const struct conn_owner echo_owner = {.input = answer, .drained = pair_drained};

static void what_input_wrote_leaves_when_it_returns(void **state)
{
    struct pair pair;

    pair_open(&pair);
    pair.conn->owner = &echo_owner;
    assert_true(conn_watch(pair.conn));
    peer_sends(&pair, "echo");
    turn_until(pair.conn->queued == 4);
    assert_int_equal(pair.conn->sent, 4);
    expect_text(&pair, "echo");
    pair_close(&pair);
}

static void an_uncommitted_room_is_nothing(void **state)
{
    struct pair pair;

    pair_open(&pair);
    conn_out_room(pair.conn, 1000);
    conn_out_commit(pair.conn, 0);
    assert_int_equal(conn_unsent(pair.conn), 0);
    assert_true(conn_flush(pair.conn));
    assert_null(pair.conn->out);
    pair_close(&pair);
}

static void more_than_a_chunk_is_split(void **state)
{
    struct pair pair;
    static unsigned char bytes[100000];

    pair_open(&pair);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = pattern(i);
    }
    conn_write(pair.conn, (struct str){(char *) bytes, 10});
    conn_write(pair.conn, (struct str){(char *) bytes + 10, sizeof(bytes) - 10});
    conn_flush(pair.conn);
    expect_pattern(&pair, sizeof(bytes));
    pair_close(&pair);
}

static void a_room_of_a_whole_chunk_follows_any_other(void **state)
{
    struct pair pair;
    size_t at = 0;

    pair_open(&pair);
    static const size_t sizes[] = {1, OUT_CHUNK_SIZE, OUT_CHUNK_SIZE - 1, 1, 2, OUT_CHUNK_SIZE};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char *room = conn_out_room(pair.conn, sizes[i]);

        for (size_t k = 0; k < sizes[i]; k++) {
            room[k] = (char) pattern(at++);
        }
        conn_out_commit(pair.conn, sizes[i]);
    }
    conn_flush(pair.conn);
    expect_pattern(&pair, at);
    pair_close(&pair);
}

/* ---- references and files ---- */

static void pieces_of_all_kinds_keep_their_order(void **state)
{
    struct pair pair;
    static unsigned char bytes[9000];

    pair_open(&pair);
    released = 0;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = pattern(i);
    }
    int first = file_new(3000, 2000);
    int second = file_new(0, 9000);
    conn_write(pair.conn, (struct str){(char *) bytes, 1000});
    conn_write_reference(pair.conn, (struct str){(char *) bytes + 1000, 1500}, count_release, &one);
    conn_write(pair.conn, (struct str){(char *) bytes + 2500, 500});
    conn_write_file(pair.conn, first, (struct file_range){0, 2000}, count_release, &ten);
    conn_write(pair.conn, (struct str){(char *) bytes + 5000, 10});
    conn_write_reference(pair.conn, (struct str){(char *) bytes + 5010, 1990}, NULL, NULL);
    conn_write_file(pair.conn, second, (struct file_range){7000, 1000}, NULL, NULL);
    conn_write_file(pair.conn, second, (struct file_range){8000, 1000}, count_release, &ten);
    assert_int_equal(conn_unsent(pair.conn), 9000);
    assert_int_equal(released, 0);
    assert_true(conn_flush(pair.conn));
    expect_pattern(&pair, 9000);
    assert_int_equal(released, 21);
    close(first);
    close(second);
    pair_close(&pair);
}

static void empty_pieces_are_released_at_once(void **state)
{
    struct pair pair;

    pair_open(&pair);
    released = 0;
    conn_write_reference(pair.conn, STR_NONE, count_release, &one);
    conn_write_file(pair.conn, -1, (struct file_range){0, 0}, count_release, &ten);
    assert_int_equal(released, 11);
    assert_null(pair.conn->out);
    pair_close(&pair);
}

static void closing_releases_what_was_not_sent(void **state)
{
    struct pair pair;
    int file = file_new(0, 100);

    pair_open(&pair);
    released = 0;
    conn_write(pair.conn, STR("x"));
    conn_write_reference(pair.conn, STR("some"), count_release, &one);
    conn_write_file(pair.conn, file, (struct file_range){0, 100}, count_release, &ten);
    conn_flush_later(pair.conn);
    conn_close(pair.conn);
    pair.conn = NULL;
    assert_int_equal(released, 11);
    loop_turn(0);
    close(file);
    pair_close(&pair);
}

static void a_large_file_waits_for_the_socket(void **state)
{
    struct pair pair;
    size_t size = 20 * MEGABYTE + 123;
    int file = file_new(0, size);

    pair_open(&pair);
    released = 0;
    conn_write_file(pair.conn, file, (struct file_range){0, size}, count_release, &one);
    assert_true(conn_flush(pair.conn));
    assert_true(conn_unsent(pair.conn) > 0);
    assert_true(pair.conn->is_output_waiting);
    expect_pattern(&pair, size);
    turn_until(pair.drained == 1);
    assert_int_equal(released, 1);
    assert_int_equal(pair.conn->sent, size);
    close(file);
    pair_close(&pair);
}

static void one_connection_does_not_hold_the_loop(void **state)
{
    struct pair pair;
    size_t size = 6 * MEGABYTE;
    int file = file_new(0, size);
    int big = 16 * MEGABYTE;

    pair_open(&pair);
    setsockopt(pair.conn->source.fd, SOL_SOCKET, SO_SNDBUFFORCE, &big, sizeof(big));
    conn_write_file(pair.conn, file, (struct file_range){0, size}, NULL, NULL);
    assert_true(conn_flush(pair.conn));
    assert_true(conn_unsent(pair.conn) >= 4 * MEGABYTE); /* two megabytes a turn at most */
    expect_pattern(&pair, size);
    close(file);
    pair_close(&pair);
}

static void a_file_that_shrank_breaks_the_connection(void **state)
{
    struct pair pair;
    int file = file_new(0, 1000);

    pair_open(&pair);
    released = 0;
    conn_write_file(pair.conn, file, (struct file_range){0, 2000}, count_release, &one);
    assert_false(conn_flush(pair.conn));
    assert_true(pair.conn->is_broken);
    assert_int_equal(pair.conn->error, EIO);
    assert_int_equal(released, 1);
    close(file);
    pair_close(&pair);
}

/* ---- the peer goes away ---- */

static void a_peer_that_left_breaks_output_and_releases(void **state)
{
    struct pair pair;
    static char bytes[4 * MEGABYTE];
    struct linger abort_it = {1, 0};

    pair_open(&pair);
    released = 0;
    conn_write_reference(pair.conn, (struct str){bytes, sizeof(bytes)}, count_release, &one);
    assert_true(conn_flush(pair.conn));
    setsockopt(pair.peer, SOL_SOCKET, SO_LINGER, &abort_it, sizeof(abort_it));
    close(pair.peer);
    pair.peer = -1;
    turn_until(pair.conn->is_broken && pair.inputs > 0);
    assert_int_equal(released, 1);
    assert_int_equal(pair.drained, 0);
    assert_int_equal(conn_unsent(pair.conn), 0);
    /* What is written now is dropped, and released. */
    conn_write(pair.conn, STR("nobody hears this"));
    conn_write_reference(pair.conn, (struct str){bytes, 5000}, count_release, &one);
    assert_int_equal(released, 2);
    assert_null(pair.conn->out);
    assert_false(conn_flush(pair.conn));
    pair_close(&pair);
}

static void our_end_follows_the_last_byte(void **state)
{
    struct pair pair;
    size_t size = 8 * MEGABYTE;
    int file = file_new(0, size);
    char byte;

    pair_open(&pair);
    conn_write_file(pair.conn, file, (struct file_range){0, size}, NULL, NULL);
    conn_shutdown_output(pair.conn);
    expect_pattern(&pair, size);
    turn_until(pair.drained == 1);
    assert_int_equal(recv(pair.peer, &byte, 1, 0), 0);
    peer_sends(&pair, "thanks"); /* the other direction lives */
    turn_until(conn_input_len(pair.conn) == 6);
    close(file);
    pair_close(&pair);
}

/* ---- a transport ---- */

static int closes; /* of the transport */

/* Takes three bytes at a time, and none every second time. */
static ssize_t slow_writev(struct conn *conn, const struct iovec *iov, int count, bool more_follows)
{
    size_t *calls = conn->transport_state;

    if (++*calls % 2 == 0) {
        errno = EAGAIN;
        return -1;
    }
    return send(conn->source.fd, iov[0].iov_base, iov[0].iov_len < 3 ? iov[0].iov_len : 3,
                MSG_NOSIGNAL);
}

static ssize_t slow_recv(struct conn *conn, void *at, size_t size)
{
    return recv(conn->source.fd, at, size < 2 ? size : 2, 0);
}

static void slow_close(struct conn *conn)
{
    closes++;
}

static const struct conn_transport slow_transport = {
    .recv = slow_recv,
    .writev = slow_writev,
    .close = slow_close,
};

static void a_transport_is_asked_until_it_says_no(void **state)
{
    struct pair pair;
    size_t calls = 0;
    int file = file_new(20, 30);
    char bytes[20];

    pair_open(&pair);
    closes = 0;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char) pattern(i);
    }
    pair.conn->transport = &slow_transport;
    pair.conn->transport_state = &calls;
    released = 0;
    conn_write(pair.conn, (struct str){bytes, sizeof(bytes)});
    conn_write_file(pair.conn, file, (struct file_range){0, 30}, count_release,
                    &one); /* read into memory */
    assert_true(conn_flush(pair.conn));
    assert_int_equal(pair.conn->sent, 3);
    /* The socket has room all the time: events must not be what this depends on. */
    while (conn_unsent(pair.conn) != 0) {
        pair.conn->is_writable = 1;
        assert_true(conn_flush(pair.conn));
    }
    expect_pattern(&pair, 50);
    assert_int_equal(released, 1);
    assert_true(conn_watch(pair.conn));
    peer_sends(&pair, "12345");
    turn_until(conn_input_len(pair.conn) == 5);
    assert_input(pair.conn, "12345");
    close(file);
    pair_close(&pair);
    assert_int_equal(closes, 1);
}

/* ---- fibers ---- */

static enum wait_result output_result;
static bool fiber_is_done;

static void writing_fiber(void *arg)
{
    struct conn *conn = arg;
    static unsigned char block[65536];
    size_t at = 0;

    output_result = WAIT_READY;
    while (at < 10 * MEGABYTE && output_result == WAIT_READY) {
        for (size_t i = 0; i < sizeof(block); i++) {
            block[i] = pattern(at + i);
        }
        conn_write(conn, (struct str){(char *) block, sizeof(block)});
        at += sizeof(block);
        output_result = conn_wait_output(conn, 100000, clock_now.now_ms + 10000);
        assert_true(conn_unsent(conn) < 100000 || output_result != WAIT_READY);
    }
    if (output_result == WAIT_READY) {
        output_result = conn_wait_output(conn, 1, clock_now.now_ms + 10000);
    }
    fiber_is_done = true;
}

static void a_fiber_writes_no_faster_than_the_peer_reads(void **state)
{
    struct pair pair;

    pair_open(&pair);
    fiber_is_done = false;
    assert_int_equal(fiber_start(writing_fiber, pair.conn, NULL), FIBER_WAITING);
    expect_pattern(&pair, 10 * MEGABYTE);
    turn_until(fiber_is_done);
    assert_int_equal(output_result, WAIT_READY);
    pair_close(&pair);
}

static void a_writing_fiber_learns_that_the_peer_left(void **state)
{
    struct pair pair;

    pair_open(&pair);
    fiber_is_done = false;
    assert_int_equal(fiber_start(writing_fiber, pair.conn, NULL), FIBER_WAITING);
    close(pair.peer);
    pair.peer = -1;
    turn_until(fiber_is_done);
    assert_int_equal(output_result, WAIT_CANCELLED);
    pair_close(&pair);
}

static void impatient_fiber(void *arg)
{
    struct conn *conn = arg;
    static char bytes[8 * MEGABYTE];

    conn_write_reference(conn, (struct str){bytes, sizeof(bytes)}, NULL, NULL);
    output_result = conn_wait_output(conn, 1, clock_now.now_ms + 10);
    fiber_is_done = true;
}

static void a_wait_for_output_times_out(void **state)
{
    struct pair pair;

    pair_open(&pair);
    fiber_is_done = false;
    fiber_start(impatient_fiber, pair.conn, NULL);
    turn_until(fiber_is_done);
    assert_int_equal(output_result, WAIT_TIMED_OUT);
    pair_close(&pair);
}

/* ---- at once ---- */

static void bytes_that_the_socket_takes_are_not_copied(void **state)
{
    struct pair pair;

    pair_open(&pair);
    assert_true(conn_write_now(pair.conn, STR("at once")));
    assert_null(pair.conn->out);
    assert_int_equal(pair.conn->sent, 7);
    expect_text(&pair, "at once");
    conn_write(pair.conn, STR("first, "));
    assert_true(conn_write_now(pair.conn, STR("then")));
    assert_int_equal(conn_unsent(pair.conn), 0);
    expect_text(&pair, "first, then");
    pair_close(&pair);
}

static void what_the_socket_does_not_take_at_once_is_copied(void **state)
{
    static char bytes[8 * MEGABYTE];
    struct pair pair;

    pair_open(&pair);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char) pattern(i);
    }
    assert_true(conn_write_now(pair.conn, (struct str){bytes, sizeof(bytes)}));
    assert_in_range(conn_unsent(pair.conn), 1, sizeof(bytes) - 1);
    memset(bytes, 0, sizeof(bytes));
    expect_pattern(&pair, sizeof(bytes));
    assert_int_equal(pair.drained, 1);
    pair_close(&pair);
}

static void who_writes_at_once_learns_that_the_peer_left(void **state)
{
    struct pair pair;

    pair_open(&pair);
    conn_fail(pair.conn, EPIPE);
    assert_false(conn_write_now(pair.conn, STR("nobody hears it")));
    assert_int_equal(conn_unsent(pair.conn), 0);
    pair_close(&pair);
}

/* A flush in between, which finds the queue empty, is no reason to forget it. */
static void what_is_held_elsewhere_is_counted_when_the_socket_takes_bytes(void **state)
{
    struct pair pair;

    pair_open(&pair);
    assert_true(conn_watch(pair.conn));
    conn_want_drained(pair.conn);
    assert_true(conn_flush(pair.conn));
    turn_until(pair.drained == 1);
    pair_close(&pair);
}

/* ---- the last bytes ---- */

/* TCP segments that have arrived at the peer. */
static uint32_t segments(const struct pair *pair)
{
    struct tcp_info info;
    socklen_t size = sizeof(info);

    assert_int_equal(getsockopt(pair->peer, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return info.tcpi_segs_in;
}

static void write_last(struct pair *pair, size_t pieces)
{
    pair->conn->is_last_output = 1;
    conn_write(pair->conn, STR("last"));
    for (size_t i = 1; i < pieces; i++) {
        conn_write_reference(pair->conn, STR(" words"), count_release, &one);
    }
    assert_true(conn_flush(pair->conn));
    assert_int_equal(conn_unsent(pair->conn), 0);
}

static void expect_end(struct pair *pair)
{
    char byte;

    assert_int_equal(recv(pair->peer, &byte, 1, 0), 0);
}

static void the_last_bytes_leave_in_one_packet_with_the_end(void **state)
{
    for (size_t pieces = 1; pieces < 3; pieces++) {
        struct pair pair;

        pair_open(&pair);
        uint32_t before = segments(&pair);
        write_last(&pair, pieces);
        conn_close(pair.conn);
        pair.conn = NULL;
        expect_text(&pair, pieces == 1 ? "last" : "last words");
        expect_end(&pair);
        assert_int_equal(segments(&pair) - before, 1);
        pair_close(&pair);
    }
}

static void the_last_bytes_leave_with_a_shutdown(void **state)
{
    struct pair pair;

    pair_open(&pair);
    uint32_t before = segments(&pair);
    write_last(&pair, 1);
    conn_shutdown_output(pair.conn);
    expect_text(&pair, "last");
    expect_end(&pair);
    assert_int_equal(segments(&pair) - before, 1);
    pair_close(&pair);
}

/* What comes before the close may take long: all bytes are there before the end is. */
static void the_last_bytes_leave_by_a_push(void **state)
{
    struct pair pair;

    pair_open(&pair);
    uint32_t before = segments(&pair);
    write_last(&pair, 1);
    assert_int_equal(segments(&pair), before); /* they are held back */
    conn_push(pair.conn);
    assert_int_equal(segments(&pair) - before, 1);
    expect_text(&pair, "last");
    pair_close(&pair);
}

/* close() resets a connection whose input is unread. What was held back until then was lost. */
static void the_last_bytes_arrive_although_input_is_unread(void **state)
{
    struct pair pair;

    pair_open(&pair);
    peer_sends(&pair, "more than was read");
    await_readable(pair.conn->source.fd);
    write_last(&pair, 1);
    conn_close(pair.conn);
    pair.conn = NULL;
    expect_text(&pair, "last");
    pair_close(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(small_writes_share_a_chunk_and_a_send),
        TEST(a_flush_put_off_leaves_at_the_end_of_the_turn),
        TEST(what_input_wrote_leaves_when_it_returns),
        TEST(an_uncommitted_room_is_nothing),
        TEST(more_than_a_chunk_is_split),
        TEST(a_room_of_a_whole_chunk_follows_any_other),
        TEST(pieces_of_all_kinds_keep_their_order),
        TEST(empty_pieces_are_released_at_once),
        TEST(closing_releases_what_was_not_sent),
        TEST(a_large_file_waits_for_the_socket),
        TEST(one_connection_does_not_hold_the_loop),
        TEST(a_file_that_shrank_breaks_the_connection),
        TEST(a_peer_that_left_breaks_output_and_releases),
        TEST(our_end_follows_the_last_byte),
        TEST(a_transport_is_asked_until_it_says_no),
        TEST(a_fiber_writes_no_faster_than_the_peer_reads),
        TEST(a_writing_fiber_learns_that_the_peer_left),
        TEST(a_wait_for_output_times_out),
        TEST(bytes_that_the_socket_takes_are_not_copied),
        TEST(what_the_socket_does_not_take_at_once_is_copied),
        TEST(who_writes_at_once_learns_that_the_peer_left),
        TEST(what_is_held_elsewhere_is_counted_when_the_socket_takes_bytes),
        TEST(the_last_bytes_leave_in_one_packet_with_the_end),
        TEST(the_last_bytes_leave_with_a_shutdown),
        TEST(the_last_bytes_leave_by_a_push),
        TEST(the_last_bytes_arrive_although_input_is_unread),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
