/* Relays: bytes both ways, ends of each kind, peers that do not read, limits of time and rate,
 * pipes. */
#include "net/relay/relay_ends.h"

#include <netinet/tcp.h>
#include <poll.h>

#include "net/relay/pipe.h"

/* ---- bytes ---- */

static void bytes_go_both_ways(void **state)
{
    struct session session;

    session_open(&session);
    relay_start(&session.relay);
    session_says(&session, RELAY_CLIENT, "question");
    session_hears(&session, RELAY_BACKEND, "question");
    session_says(&session, RELAY_BACKEND, "answer");
    session_hears(&session, RELAY_CLIENT, "answer");
    assert_int_equal(session.relay.sides[RELAY_CLIENT].received, 8);
    assert_int_equal(session.relay.sides[RELAY_CLIENT].conn->sent, 6);
    assert_int_equal(session.relay.sides[RELAY_BACKEND].received, 6);
    assert_int_equal(session.relay.sides[RELAY_BACKEND].conn->sent, 8);
    session_close(&session);
    assert_int_equal(session.why, RELAY_ABORTED);
}

static void an_idle_relay_has_no_buffer(void **state)
{
    struct session session;

    session_open(&session);
    relay_start(&session.relay);
    session_says(&session, RELAY_CLIENT, "question");
    session_hears(&session, RELAY_BACKEND, "question");
    for (int i = 0; i < 2; i++) {
        assert_null(session.relay.sides[i].conn->in);
        assert_null(session.relay.sides[i].conn->out);
        assert_false(session.relay.sides[i].conn->source.is_output_watched);
    }
    assert_in_range(sizeof(struct relay), 1, 176);
    session_close(&session);
}

static bool has_nodelay(const struct conn *conn)
{
    int on = 0;
    socklen_t len = sizeof(on);

    assert_int_equal(getsockopt(conn->source.fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    return on != 0;
}

static void no_option_is_set_before_the_second_piece(void **state)
{
    struct session session;

    session_open(&session);
    struct conn *backend = session.relay.sides[RELAY_BACKEND].conn;
    backend->is_tcp = 1;
    session.relay.sides[RELAY_BACKEND].wants_nodelay = 1;
    relay_start(&session.relay);
    session_says(&session, RELAY_CLIENT, "first");
    session_hears(&session, RELAY_BACKEND, "first");
    assert_false(has_nodelay(backend));
    session_says(&session, RELAY_CLIENT, "second");
    session_hears(&session, RELAY_BACKEND, "second");
    assert_true(has_nodelay(backend));
    session_close(&session);
}

static void what_was_read_before_goes_first(void **state)
{
    struct session session;

    session_open(&session);
    session_says(&session, RELAY_CLIENT, "early ");
    struct conn *client = session.relay.sides[RELAY_CLIENT].conn;
    await_readable(client->source.fd);
    assert_true(conn_fill(client, 512, 512));
    session_says(&session, RELAY_CLIENT, "late");
    relay_start(&session.relay);
    session_hears(&session, RELAY_BACKEND, "early late");
    assert_int_equal(session.relay.sides[RELAY_CLIENT].received, 10);
    assert_null(client->in);
    session_close(&session);
}

/* ---- ends ---- */

static void the_first_end_ends_it_once_all_is_delivered(void **state)
{
    struct session session;

    session_open(&session);
    relay_start(&session.relay);
    session_says(&session, RELAY_BACKEND, "last words");
    session_close_peer(&session, RELAY_BACKEND);
    session_ends(&session, RELAY_CLOSED, RELAY_BACKEND);
    session_hears(&session, RELAY_CLIENT, "last words");
    session_close(&session);

    session_open(&session);
    relay_start(&session.relay);
    session_says(&session, RELAY_CLIENT, "bye");
    shutdown(session.peers[RELAY_CLIENT], SHUT_WR);
    session_ends(&session, RELAY_CLOSED, RELAY_CLIENT);
    session_hears(&session, RELAY_BACKEND, "bye");
    session_close(&session);
}

static void an_end_that_was_read_before_counts(void **state)
{
    struct session session;

    session_open(&session);
    session_says(&session, RELAY_CLIENT, "all");
    session_close_peer(&session, RELAY_CLIENT);
    struct conn *client = session.relay.sides[RELAY_CLIENT].conn;
    while (!client->is_input_closed) {
        await_readable(client->source.fd);
        client->is_readable = 1;
        conn_fill(client, 512, 512);
    }
    relay_start(&session.relay);
    session_ends(&session, RELAY_CLOSED, RELAY_CLIENT);
    session_hears(&session, RELAY_BACKEND, "all");
    session_close(&session);
}

static void with_half_close_the_other_way_goes_on(void **state)
{
    struct session session;

    session_open(&session);
    session.relay.sides[RELAY_CLIENT].is_half_close_on = 1;
    relay_start(&session.relay);
    session_says(&session, RELAY_CLIENT, "question");
    shutdown(session.peers[RELAY_CLIENT], SHUT_WR);
    session_hears(&session, RELAY_BACKEND, "question");
    session_hears_end(&session, RELAY_BACKEND);
    assert_int_equal(session.ended, 0);
    session_says(&session, RELAY_BACKEND, "answer");
    session_hears(&session, RELAY_CLIENT, "answer");
    assert_int_equal(session.ended, 0);
    session_close_peer(&session, RELAY_BACKEND);
    session_ends(&session, RELAY_CLOSED, RELAY_BACKEND);
    session_close(&session);
}

static void a_reset_is_told_after_what_came_before_it(void **state)
{
    struct session session;

    session_open(&session);
    relay_start(&session.relay);
    session_says(&session, RELAY_CLIENT, "words");
    await_readable(session.relay.sides[RELAY_CLIENT].conn->source.fd);
    session_reset_peer(&session, RELAY_CLIENT);
    session_ends(&session, RELAY_BROKEN, RELAY_CLIENT);
    assert_int_equal(session.relay.sides[RELAY_CLIENT].conn->error, ECONNRESET);
    session_hears(&session, RELAY_BACKEND, "words");
    session_close(&session);
}

/* A backend refuses an upload: it says why and closes, and what comes of the upload makes its
 * kernel reset. */
static void an_answer_to_an_upload_that_was_refused_arrives(void **state)
{
    struct session session;
    struct pollfd reset;

    session_open(&session);
    relay_start(&session.relay);
    session_says(&session, RELAY_CLIENT, "part");
    session_hears(&session, RELAY_BACKEND, "part");
    session_says(&session, RELAY_BACKEND, "413");
    session_close_peer(&session, RELAY_BACKEND);
    /* Our writes meet a closed socket: the second one fails. Nothing is read of the backend before.
     */
    struct conn *backend = session.relay.sides[RELAY_BACKEND].conn;
    assert_int_equal(send(backend->source.fd, "more", 4, MSG_NOSIGNAL), 4);
    reset = (struct pollfd){.fd = backend->source.fd, .events = 0};
    assert_int_equal(poll(&reset, 1, 10000), 1);
    assert_false(conn_write_now(backend, STR("and more")));
    relay_move(&session.relay);
    session_ends(&session, RELAY_BROKEN, RELAY_BACKEND);
    session_hears(&session, RELAY_CLIENT, "413");
    session_close(&session);
}

static void both_may_break(void **state)
{
    struct session session;

    session_open(&session);
    relay_start(&session.relay);
    conn_fail(session.relay.sides[RELAY_CLIENT].conn, ECONNRESET);
    conn_fail(session.relay.sides[RELAY_BACKEND].conn, ECONNRESET);
    relay_move(&session.relay);
    session_ends(&session, RELAY_BROKEN, RELAY_CLIENT);
    relay_move(&session.relay);
    relay_check_time(&session.relay);
    session_close(&session);
}

/* ---- peers that do not read, and large flows ---- */

/* Sends what the socket takes of bytes that tell their place. */
static size_t pours(struct session *session, enum relay_end end, size_t from, size_t to)
{
    static char bytes[65536];

    while (from < to) {
        size_t n = to - from < sizeof(bytes) ? to - from : sizeof(bytes);

        for (size_t i = 0; i < n; i++) {
            bytes[i] = (char) ((from + i) * 2654435761u >> 13);
        }
        ssize_t sent = send(session->peers[end], bytes, n, MSG_NOSIGNAL);
        if (sent <= 0) {
            break;
        }
        from += (size_t) sent;
    }
    return from;
}

/* Reads what has come, and looks whether it is what was poured. */
static size_t drinks(struct session *session, enum relay_end end, size_t from)
{
    static char bytes[65536];
    ssize_t n;

    while ((n = recv(session->peers[end], bytes, sizeof(bytes), 0)) > 0) {
        for (size_t i = 0; i < (size_t) n; i++) {
            if (bytes[i] != (char) ((from + i) * 2654435761u >> 13)) {
                fail_msg("byte %zu is another", from + i);
            }
        }
        from += (size_t) n;
    }
    return from;
}

/* So that little is on its way; not below the size of loopback's packets, which would take their
 * time then. */
static void small_buffers(struct session *session)
{
    int size = 64 * 1024;

    for (int i = 0; i < 2; i++) {
        int fds[2] = {session->relay.sides[i].conn->source.fd, session->peers[i]};

        for (int k = 0; k < 2; k++) {
            setsockopt(fds[k], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
            setsockopt(fds[k], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
        }
    }
}

static void a_peer_that_does_not_drink_costs_a_buffer(void **state)
{
    struct session session;
    size_t total = 4 * 1024 * 1024;
    size_t sent = 0;
    size_t got = 0;

    session_open(&session);
    small_buffers(&session);
    session.relay.buffer_size = 4096;
    relay_start(&session.relay);
    struct relay_side *client = &session.relay.sides[RELAY_CLIENT];
    for (size_t before = 1; before != client->received || sent == 0;) {
        before = client->received;
        sent = pours(&session, RELAY_CLIENT, sent, total);
        for (int i = 0; i < 20; i++) {
            loop_turn(0);
        }
        struct conn *backend = session.relay.sides[RELAY_BACKEND].conn;
        assert_in_range(conn_unsent(backend) + client->received - backend->queued, 0, 256 * 1024);
        assert_in_range(conn_unsent(backend), 0, 4096);
    }
    assert_true(sent < total);
    /* The other way is not held up. */
    session_says(&session, RELAY_BACKEND, "hello");
    session_hears(&session, RELAY_CLIENT, "hello");
    while (got < total) {
        sent = pours(&session, RELAY_CLIENT, sent, total);
        got = drinks(&session, RELAY_BACKEND, got);
        loop_turn(0);
    }
    assert_int_equal(client->received, total);
    session_close(&session);
}

static void a_large_flow_takes_a_pipe_and_gives_it_back(void **state)
{
    struct session session;
    size_t total = 8 * 1024 * 1024;
    size_t sent = 0;
    size_t got = 0;
    bool was_large = false;

    session_open(&session);
    relay_start(&session.relay);
    struct relay_side *backend = &session.relay.sides[RELAY_BACKEND];
    while (got < total) {
        sent = pours(&session, RELAY_BACKEND, sent, total);
        loop_turn(0);
        was_large |= backend->is_large;
        got = drinks(&session, RELAY_CLIENT, got);
    }
    assert_true(was_large);
    assert_int_equal(session.relay.sides[RELAY_CLIENT].conn->sent, total);
    loop_turn(0);
    assert_null(backend->pipe);
    session_says(&session, RELAY_BACKEND, "small again");
    session_hears(&session, RELAY_CLIENT, "small again");
    assert_false(backend->is_large);
    session_close(&session);
}

static void more_large_flows_than_pipes(void **state)
{
    enum { SESSIONS = 40, BYTES = 1024 * 1024 };
    static struct session sessions[SESSIONS];
    size_t sent[SESSIONS] = {0};
    size_t got[SESSIONS] = {0};
    int with_pipe = 0;
    int left = SESSIONS;

    for (int i = 0; i < SESSIONS; i++) {
        session_open(&sessions[i]);
        small_buffers(&sessions[i]);
        relay_start(&sessions[i].relay);
    }
    for (int rounds = 0; rounds < 20; rounds++) {
        for (int i = 0; i < SESSIONS; i++) {
            sent[i] = pours(&sessions[i], RELAY_CLIENT, sent[i], BYTES);
        }
        loop_turn(0);
    }
    for (int i = 0; i < SESSIONS; i++) {
        with_pipe += sessions[i].relay.sides[RELAY_CLIENT].pipe != NULL;
    }
    assert_in_range(with_pipe, 1, 32);
    while (left > 0) {
        left = 0;
        for (int i = 0; i < SESSIONS; i++) {
            sent[i] = pours(&sessions[i], RELAY_CLIENT, sent[i], BYTES);
            got[i] = drinks(&sessions[i], RELAY_BACKEND, got[i]);
            left += got[i] < BYTES;
        }
        loop_turn(0);
    }
    for (int i = 0; i < SESSIONS; i++) {
        session_close(&sessions[i]);
    }
}

static void a_relay_that_ends_with_bytes_in_its_pipe_leaves_none_to_others(void **state)
{
    struct session session;
    size_t got = 0;
    size_t sent = 0;

    session_open(&session);
    small_buffers(&session);
    relay_start(&session.relay);
    turn_until((sent = pours(&session, RELAY_CLIENT, sent, 1 << 24),
                session.relay.sides[RELAY_CLIENT].pipe != NULL));
    session_close(&session);
    session_open(&session);
    relay_start(&session.relay);
    sent = 0;
    while (got < 1 << 20) {
        sent = pours(&session, RELAY_CLIENT, sent, 1 << 20);
        loop_turn(0);
        got = drinks(&session, RELAY_BACKEND, got);
    }
    session_close(&session);
}

static void one_turn_moves_no_more_than_its_budget(void **state)
{
    struct session session;
    size_t sent = 0;

    session_open(&session);
    session.relay.sides[RELAY_CLIENT].conn->turn_budget = 20000;
    relay_start(&session.relay);
    sent = pours(&session, RELAY_CLIENT, 0, 100000);
    assert_int_equal(sent, 100000);
    await_readable(session.relay.sides[RELAY_CLIENT].conn->source.fd);
    loop_turn(100); /* the event, and what was left then */
    assert_in_range(session.relay.sides[RELAY_CLIENT].received, 1, 2 * (20000 + 16384));
    turn_until(session.relay.sides[RELAY_CLIENT].received == 100000);
    session_close(&session);
}

/* ---- time ---- */

static void silence_ends_it(void **state)
{
    struct session session;

    session_open(&session);
    session.relay.timeout_ms = 5;
    relay_start(&session.relay);
    turn_until(session.ended != 0);
    assert_int_equal(session.why, RELAY_TIMED_OUT);
    session_close(&session);
}

static void the_timeout_counts_from_the_last_byte_and_may_change(void **state)
{
    struct session session;

    session_open(&session);
    relay_start(&session.relay);
    session_says(&session, RELAY_BACKEND, "byte");
    session_hears(&session, RELAY_CLIENT, "byte");
    session.relay.active_ms -= 50;
    session.relay.timeout_ms = 40000;
    relay_check_time(&session.relay);
    assert_int_equal(session.ended, 0);
    session_says(&session, RELAY_BACKEND, "byte");
    session_hears(&session, RELAY_CLIENT, "byte");
    assert_int_equal(session.relay.active_ms, clock_now.now_ms);
    session.relay.timeout_ms = 1;
    relay_check_time(&session.relay);
    turn_until(session.ended != 0);
    assert_int_equal(session.why, RELAY_TIMED_OUT);
    session_close(&session);
}

static void one_that_takes_nothing_has_a_time_of_its_own(void **state)
{
    struct session session;
    size_t sent = 0;

    session_open(&session);
    small_buffers(&session);
    session.relay.sides[RELAY_BACKEND].stall_timeout_ms = 20;
    relay_start(&session.relay);
    turn_until((sent = pours(&session, RELAY_CLIENT, sent, 1 << 24), session.ended != 0));
    assert_int_equal(session.why, RELAY_STALLED);
    assert_int_equal(session.side, RELAY_BACKEND);
    session_close(&session);
}

static void a_rate_holds_one_way_back(void **state)
{
    struct session session;
    struct relay_side *client = &session.relay.sides[RELAY_CLIENT];

    session_open(&session);
    client->rate = 1000;
    relay_start(&session.relay);
    assert_int_equal(pours(&session, RELAY_CLIENT, 0, 30000), 30000);
    turn_until(client->received >= 1000);
    assert_in_range(client->received, 1000,
                    1000 + (clock_now.now_ms - session.relay.started_ms) + 50);
    session_says(&session, RELAY_BACKEND, "not held back");
    session_hears(&session, RELAY_CLIENT, "not held back");
    assert_true(client->received < 30000);
    session.relay.started_ms -= 30000;
    relay_check_time(&session.relay);
    turn_until(client->received == 30000);
    session_close(&session);
}

static void a_rate_goes_on_by_its_timer(void **state)
{
    struct session session;
    struct relay_side *client = &session.relay.sides[RELAY_CLIENT];

    session_open(&session);
    client->rate = 100000;
    relay_start(&session.relay);
    assert_int_equal(pours(&session, RELAY_CLIENT, 0, 110000), 110000);
    turn_until(client->received == 110000);
    session_close(&session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_go_both_ways),
        TEST(an_idle_relay_has_no_buffer),
        TEST(no_option_is_set_before_the_second_piece),
        TEST(what_was_read_before_goes_first),
        TEST(the_first_end_ends_it_once_all_is_delivered),
        TEST(an_end_that_was_read_before_counts),
        TEST(with_half_close_the_other_way_goes_on),
        TEST(a_reset_is_told_after_what_came_before_it),
        TEST(an_answer_to_an_upload_that_was_refused_arrives),
        TEST(both_may_break),
        TEST(a_peer_that_does_not_drink_costs_a_buffer),
        TEST(a_large_flow_takes_a_pipe_and_gives_it_back),
        TEST(more_large_flows_than_pipes),
        TEST(a_relay_that_ends_with_bytes_in_its_pipe_leaves_none_to_others),
        TEST(one_turn_moves_no_more_than_its_budget),
        TEST(silence_ends_it),
        TEST(the_timeout_counts_from_the_last_byte_and_may_change),
        TEST(one_that_takes_nothing_has_a_time_of_its_own),
        TEST(a_rate_holds_one_way_back),
        TEST(a_rate_goes_on_by_its_timer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
