/* The end of a session whose client has not received everything yet: a connection without a
 * fiber. */
#include <errno.h>

#include "base/clock.h"
#include "stream/session/session.h"

/* State of the wait, in session->content. */
struct drain {
    uint64_t timeout_ms;
    uint64_t sent; /* bytes that the socket had accepted when the timeout began */
};

static void stream_drain_end(struct session *session)
{
    session_end(session, session->status != 0 ? session->status : SESSION_OK);
}

static void drained(struct conn *conn)
{
    if (conn->is_broken || conn_unsent(conn) == 0) {
        stream_drain_end(conn->user);
    }
}

/* Input is ignored; only the end of the connection matters. */
static void input_came(struct conn *conn)
{
    if (conn->is_broken) {
        stream_drain_end(conn->user);
    }
}

static void timed_out(struct conn *conn)
{
    struct session *session = conn->user;
    struct drain *drain = session->content;

    if (conn->sent != drain->sent) {
        drain->sent = conn->sent;
        conn_set_deadline(conn, clock_now.now_ms + drain->timeout_ms);
        return;
    }
    log_info(&session->log, ETIMEDOUT, "connection timed out");
    stream_drain_end(session);
}

static const struct conn_owner drain_owner = {.input = input_came,
                                              .drained = drained,
                                              .timed_out = timed_out};
static const struct session_holder drain_holder = {.abort = stream_drain_end};

enum session_step session_end_sent(struct session *session, uint64_t timeout_ms)
{
    struct conn *conn = session->conn;

    if (conn == NULL || !conn_flush(conn) || conn_unsent(conn) == 0) {
        return SESSION_ENDED;
    }
    struct drain *drain = arena_new(&session->arena, struct drain);
    drain->timeout_ms = timeout_ms;
    drain->sent = conn->sent;
    session->content = drain;
    conn->owner = &drain_owner;
    conn_set_deadline(conn, clock_now.now_ms + timeout_ms);
    if (!conn_watch(conn)) {
        return session_fail(session, SESSION_INTERNAL_ERROR);
    }
    return session_carry(session, &drain_holder);
}
