/* A connection under test, its peer, and turning the loop until something holds. */
#ifndef TESTS_NET_PAIR_H
#define TESTS_NET_PAIR_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "event/loop.h"
#include "net/conn/conn.h"

/* What the owner was told. */
struct pair {
    struct conn *conn;
    int peer;
    int inputs;
    int drained;
    int timeouts;
    bool fills;  /* input reads all there is */
    bool parks;  /* … and the connection rests again */
    bool closes; /* input closes the connection */
};

static inline void pair_input(struct conn *conn)
{
    struct pair *pair = conn->user;

    pair->inputs++;
    if (pair->closes) {
        conn_close(conn);
        pair->conn = NULL;
        return;
    }
    while (pair->fills && conn_fill(conn, 1024, 65536)) {
    }
    if (pair->parks && conn_input_len(conn) == 0) {
        assert_true(conn_park(conn));
    }
}

static inline void pair_drained(struct conn *conn)
{
    ((struct pair *) conn->user)->drained++;
}

static inline void pair_timed_out(struct conn *conn)
{
    struct pair *pair = conn->user;

    pair->timeouts++;
    if (pair->closes) {
        conn_close(conn);
        pair->conn = NULL;
    }
}

static const struct conn_owner pair_owner = {.input = pair_input,
                                             .drained = pair_drained,
                                             .timed_out = pair_timed_out};

/* Two ends of a TCP connection over loopback; the first is non-blocking. */
static inline void tcp_pair(int fds[2])
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(name);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listening, (struct sockaddr *) &name, len), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *) &name, &len), 0);
    fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fds[1], (struct sockaddr *) &name, len), 0);
    fds[0] = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(fds[0] >= 0);
    close(listening);
}

static inline void pair_open(struct pair *pair)
{
    struct addr peer = {.len = sizeof(struct sockaddr_in), .v4.sin_family = AF_INET};
    int fds[2];

    memset(pair, 0, sizeof(*pair));
    tcp_pair(fds);
    pair->conn = conn_new(fds[0], &peer, &pair_owner, log_main);
    assert_non_null(pair->conn);
    pair->conn->user = pair;
    pair->peer = fds[1];
    pair->fills = true;
}

static inline void pair_close(struct pair *pair)
{
    if (pair->conn != NULL) {
        conn_close(pair->conn);
    }
    if (pair->peer != -1) {
        close(pair->peer);
    }
}

static inline void peer_sends(struct pair *pair, const char *text)
{
    assert_int_equal(send(pair->peer, text, strlen(text), 0), strlen(text));
}

/*
 * The connection's socket has something for the loop: the loopback is as good as synchronous, but
 * let it settle.
 */
static inline void turn_until_input(struct pair *pair, int inputs)
{
    for (int i = 0; i < 50 && pair->inputs < inputs; i++) {
        loop_turn(100);
    }
    assert_int_equal(pair->inputs, inputs);
}

#define turn_until(condition)                                                                      \
    do {                                                                                           \
        uint64_t give_up_ = clock_now.now_ms + 10000;                                              \
        while (!(condition) && clock_now.now_ms < give_up_) {                                      \
            loop_turn(100);                                                                        \
        }                                                                                          \
        assert_true(condition);                                                                    \
    } while (0)

/* Until the descriptor is readable, so that what the peer did has arrived. */
static inline void await_readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN | POLLRDHUP};

    assert_int_equal(poll(&poll_fd, 1, 10000), 1);
}

#define assert_input(conn, literal)                                                                \
    do {                                                                                           \
        struct str got_ = conn_input(conn);                                                        \
        assert_int_equal(got_.len, sizeof(literal) - 1);                                           \
        assert_memory_equal(got_.data, literal, got_.len);                                         \
    } while (0)

static inline int loop_setup(void **state)
{
    struct loop_options options = {.log = log_main};

    conn_pool_init(1000);
    return loop_init(&options) && loop_host_fibers(100, 0) ? 0 : -1;
}

static inline int loop_teardown(void **state)
{
    assert_int_equal(conn_pool.used, 0);
    assert_int_equal(conn_pool.idle, 0);
    loop_destroy();
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, loop_setup, loop_teardown)

#endif
