/* The stages of a session: the callbacks of the loop, and waiting without a fiber. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/datagram/flow.h"
#include "server/generation.h"
#include "stream/session/hooks.h"
#include "stream/session/story.h"

#define FIRST_BUFFER 4096

static void proxy_header_input(struct conn *conn);
static void handshake_input(struct conn *conn);
static void preread_input(struct conn *conn);
static void client_timed_out(struct conn *conn);
static void preread_timed_out(struct conn *conn);

static const struct {
    const char *action;      /* what the session does, for log lines; or NULL */
    struct conn_owner owner; /* callbacks of the loop */
} stages[] = {
    [SESSION_PROXY_HEADER] = {"reading PROXY protocol",
                              {.input = proxy_header_input, .timed_out = client_timed_out}},
    [SESSION_BEGINNING] = {"initializing session", {.input = NULL}},
    [SESSION_HANDSHAKE] = {"SSL handshaking",
                           {.input = handshake_input, .timed_out = client_timed_out}},
    [SESSION_PREREADING] = {"prereading client data",
                            {.input = preread_input, .timed_out = preread_timed_out}},
    [SESSION_CONTENT] = {NULL, {.input = NULL}},
    [SESSION_CARRIED] = {NULL, {.input = NULL}},
};

void session_enter(struct session *session, enum session_stage stage)
{
    struct conn *conn = session->conn;

    session->stage = (uint8_t) stage;
    session->log.action = stages[stage].action;
    session->next_handler = 0;
    if (conn == NULL) {
        return;
    }
    conn->owner = &stages[stage].owner;
    switch (stage) {
    case SESSION_PROXY_HEADER:
        conn_set_deadline(conn, clock_now.now_ms + session->server->proxy_protocol_timeout_ms);
        break;
    case SESSION_HANDSHAKE: {
        const struct stream_handshake *handshake = session->server->main->handshake;
        conn_set_deadline(conn, clock_now.now_ms + handshake->timeout_ms(session->server));
        break;
    }
    case SESSION_PREREADING:
        conn_set_deadline(conn, clock_now.now_ms + session->server->preread_timeout_ms);
        break;
    default:
        conn_set_deadline(conn, NO_DEADLINE);
        break;
    }
}

void session_await(struct session *session)
{
    struct conn *conn = session->conn;
    bool is_watched = session_input(session).len == 0 ? conn_park(conn) : conn_watch(conn);

    if (!is_watched) {
        session_end(session, SESSION_INTERNAL_ERROR);
    }
}

/* ---- the PROXY protocol's header ---- */

static void log_broken_header(const struct session *session)
{
    struct str start = str_head(session_input(session), 80);

    log_error(&session->log, 0, "broken header: \"%.*s\"", STR_ARG(start));
}

static void proxy_header_input(struct conn *conn)
{
    struct session *session = conn->user;
    size_t used;

    conn_fill(conn, FIRST_BUFFER, PROXY_HEADER_MAX + FIRST_BUFFER);
    switch (proxy_header_parse(session_input(session), &session->proxy, &used)) {
    case PROXY_HEADER_DONE:
        conn_consume(conn, used);
        conn_input_release(conn);
        session_enter(session, SESSION_BEGINNING);
        session_go_on(session);
        return;
    case PROXY_HEADER_MORE:
        if (!conn->is_input_closed && !conn->is_broken) {
            session_await(session);
            return;
        }
        break;
    case PROXY_HEADER_BAD:
        counters_mine->limited++;
        break;
    }
    log_broken_header(session);
    session_end(session, SESSION_BAD_REQUEST);
}

/* The client took too long in a stage where that is logged. */
static void client_timed_out(struct conn *conn)
{
    struct session *session = conn->user;

    log_info(&session->log, ETIMEDOUT, "client timed out");
    counters_mine->tls_timeouts += session->stage == SESSION_HANDSHAKE;
    session_end(session, session->stage == SESSION_HANDSHAKE ? SESSION_INTERNAL_ERROR : SESSION_OK);
}

/* ---- TLS ---- */

static void handshake_input(struct conn *conn)
{
    struct session *session = conn->user;

    switch (session->server->main->handshake->go_on(session)) {
    case TLS_DONE:
        session->is_secure = true;
        conn_set_deadline(conn, NO_DEADLINE);
        session_go_on(session);
        break;
    case TLS_MORE:
        if (!conn_park(conn)) {
            session_end(session, SESSION_INTERNAL_ERROR);
        }
        break;
    case TLS_PLAIN:
    case TLS_FAILED:
        session_end(session, SESSION_INTERNAL_ERROR);
        break;
    }
}

/* ---- preread ---- */

static void preread_input(struct conn *conn)
{
    session_go_on(conn->user);
}

/* The client sent too little for preread: ends without a log message. */
static void preread_timed_out(struct conn *conn)
{
    session_end(conn->user, SESSION_OK);
}

/* ---- content without a fiber ---- */

enum session_step session_carry(struct session *session, const struct session_holder *holder)
{
    session->fiber = NULL;
    session->stage = SESSION_CARRIED;
    session->holder = holder;
    return SESSION_LEFT;
}

void session_hold_input(struct session *session)
{
    if (session->conn != NULL) {
        session->conn->owner = &stages[SESSION_CONTENT].owner;
        conn_set_deadline(session->conn, NO_DEADLINE);
    }
}

void session_release_input(struct session *session)
{
    if (session->conn != NULL) {
        session->conn->owner = &stages[session->stage].owner;
        conn_set_deadline(session->conn, clock_now.now_ms + session->server->preread_timeout_ms);
    }
}

/* ---- the end of the worker ---- */

static void abort_one(struct conn *conn, void *arg)
{
    struct session *session = session_of(conn);

    if (session != NULL) {
        session_abort(session);
    }
}

void session_abort(struct session *session)
{
    if (session->fiber != NULL) {
        fiber_cancel(session->fiber);
    } else if (session->stage == SESSION_CARRIED) {
        session->holder->abort(session);
    } else {
        session_end(session, SESSION_OK);
    }
}

void sessions_abort(void)
{
    conn_each(abort_one, NULL);
    datagrams_abort();
}
