/* A relay under test between two connections, and the peers of both. */
#ifndef TESTS_NET_RELAY_ENDS_H
#define TESTS_NET_RELAY_ENDS_H

#include "net/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "net/relay/relay.h"

/* conn->user of both. */
struct session {
    struct relay relay;
    int peers[2]; /* by enum relay_end, non-blocking; -1 = closed */
    int ended;    /* times that it was told */
    enum relay_why why;
    enum relay_end side;
};

static inline void session_moves(struct conn *conn)
{
    relay_move(&((struct session *) conn->user)->relay);
}

static inline void session_is_due(struct conn *conn)
{
    relay_check_time(&((struct session *) conn->user)->relay);
}

static const struct conn_owner session_owner = {.input = session_moves,
                                                .drained = session_moves,
                                                .timed_out = session_is_due};

static inline void session_ended(struct relay *relay, enum relay_why why, enum relay_end side)
{
    struct session *session = container_of(relay, struct session, relay);

    session->ended++;
    session->why = why;
    session->side = side;
}

/* conns[i] becomes one of its own, of the first of the two descriptors. */
static inline void session_take(struct session *session, enum relay_end end, const int fds[2])
{
    struct addr peer = {.len = sizeof(struct sockaddr_in), .v4.sin_family = AF_INET};
    struct conn *conn = conn_new(fds[0], &peer, &session_owner, log_main);

    assert_non_null(conn);
    assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    conn->user = session;
    session->relay.sides[end].conn = conn;
    session->peers[end] = fds[1];
}

/* Over TCP; the relay is not started. */
static inline void session_open(struct session *session)
{
    int fds[2];

    signal(SIGPIPE, SIG_IGN);
    memset(session, 0, sizeof(*session));
    session->relay.ended = session_ended;
    session->relay.timeout_ms = 60000;
    for (enum relay_end end = RELAY_CLIENT; end <= RELAY_BACKEND; end++) {
        tcp_pair(fds);
        session_take(session, end, fds);
    }
}

static inline void session_close_peer(struct session *session, enum relay_end end)
{
    if (session->peers[end] != -1) {
        close(session->peers[end]);
        session->peers[end] = -1;
    }
}

static inline void session_reset_peer(struct session *session, enum relay_end end)
{
    struct linger abortive = {.l_onoff = 1, .l_linger = 0};

    assert_int_equal(setsockopt(session->peers[end], SOL_SOCKET, SO_LINGER, &abortive,
                                sizeof(abortive)),
                     0);
    session_close_peer(session, end);
}

/* What a user does at last. */
static inline void session_close(struct session *session)
{
    relay_abort(&session->relay);
    assert_int_equal(session->ended, 1);
    for (enum relay_end end = RELAY_CLIENT; end <= RELAY_BACKEND; end++) {
        assert_null(session->relay.sides[end].pipe);
        conn_close(session->relay.sides[end].conn);
        session_close_peer(session, end);
    }
}

static inline void session_says(struct session *session, enum relay_end end, const char *text)
{
    assert_int_equal(send(session->peers[end], text, strlen(text), 0), strlen(text));
}

/* The peer gets exactly this, while the loop turns. */
static inline void session_hears(struct session *session, enum relay_end end, const char *text)
{
    char got[256];
    size_t n = 0;

    for (int turns = 0; n < strlen(text) && turns < 1000; turns++) {
        ssize_t more = recv(session->peers[end], got + n, strlen(text) - n, 0);

        assert_true(more > 0 || (more == -1 && errno == EAGAIN));
        if (more > 0) {
            n += (size_t) more;
        } else {
            loop_turn(10);
        }
    }
    assert_int_equal(n, strlen(text));
    assert_memory_equal(got, text, n);
}

/* The peer hears of an end, while the loop turns. */
static inline void session_hears_end(struct session *session, enum relay_end end)
{
    ssize_t n;
    char byte;

    for (int turns = 0; turns < 1000; turns++) {
        n = recv(session->peers[end], &byte, 1, 0);
        if (n != -1 || errno != EAGAIN) {
            break;
        }
        loop_turn(10);
    }
    assert_int_equal(n, 0);
}

static inline void session_ends(struct session *session, enum relay_why why, enum relay_end side)
{
    turn_until(session->ended != 0);
    assert_int_equal(session->ended, 1);
    assert_int_equal(session->why, why);
    assert_int_equal(session->side, side);
}

#endif
