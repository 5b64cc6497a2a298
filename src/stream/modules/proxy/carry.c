/* A session and its connected backend: bytes are relayed both ways, without a fiber, until one of
 * them ends. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/parse.h"
#include "stream/modules/proxy/datagram.h"
#include "upstream/peer.h"

static struct proxying *proxying_of(const struct session *session)
{
    return session->content;
}

/* ---- counts and log lines ---- */

/* Bytes from and to the backend so far. */
static void count_backend(const struct proxying *proxying, uint64_t *received, uint64_t *sent)
{
    if (proxying->session->listen->is_udp) {
        proxy_datagrams_count(proxying, received, sent);
        return;
    }
    *received = proxying->is_relaying ? proxying->relay.sides[RELAY_BACKEND].received : 0;
    *sent = proxying->connection != NULL ? proxying->connection->conn->sent : 0;
}

/* Bytes that were passed on, including those read before the relay (by preread, or together with
 * the PROXY header). */
static void count_client(const struct session *session, uint64_t *received, uint64_t *sent)
{
    const struct proxying *proxying = proxying_of(session);

    *received = proxying != NULL && proxying->is_relaying
                    ? proxying->relay.sides[RELAY_CLIENT].received
                    : 0;
    *sent = 0;
}

static void describe_bytes(const struct session *session, struct writer *out)
{
    uint64_t from_client, to_client, from_backend, to_backend;

    session_count(session, &from_client, &to_client);
    count_backend(proxying_of(session), &from_backend, &to_backend);
    writer_printf(out, ", bytes from/to client:%llu/%llu, bytes from/to upstream:%llu/%llu",
                  (unsigned long long) from_client, (unsigned long long) to_client,
                  (unsigned long long) from_backend, (unsigned long long) to_backend);
}

void proxy_describe(const struct session *session, struct writer *out)
{
    const struct proxying *proxying = proxying_of(session);

    if (proxying == NULL) {
        return;
    }
    if (proxying->pick.peer != NULL) {
        log_member(out, "upstream");
        writer_printf(out, "\"%.*s\"", STR_ARG(proxying->pick.peer->name));
    } else if (proxying->attempt != NULL) {
        log_member(out, "upstream");
        writer_printf(out, "\"%.*s\"", STR_ARG(proxying->attempt->peer));
    } else if (proxying->pick.group != NULL) {
        log_member(out, "upstream");
        writer_printf(out, "\"%.*s\"", STR_ARG(proxying->pick.group->name));
    }
    describe_bytes(session, out);
}

/* ---- the end ---- */

void proxy_let_go(struct proxying *proxying, enum peer_outcome outcome)
{
    struct session *session = proxying->session;

    if (session->attempts.items == &proxying->first) {
        /* The log phase comes later, when the peer may be gone. */
        struct attempt *kept = arena_alloc(&session->arena, sizeof(*kept));

        *kept = proxying->first;
        kept->peer = arena_dup(&session->arena, kept->peer);
        session->attempts.items = kept;
    }
    if (proxying->pick.group != NULL) {
        if (proxying->pick.peer != NULL) {
            upstream_pick_done(&proxying->pick, outcome);
        }
        upstream_pick_end(&proxying->pick);
    }
    if (proxying->connection != NULL) {
        upstream_connection_close(proxying->connection);
    }
    if (session->listen->is_udp) {
        proxy_datagrams_let_go(proxying);
    }
    session->holder = NULL;
    session->content = NULL;
    free(proxying);
}

/* Logs "client disconnected, bytes from/to client:…" without a context, as nginx does. */
static void log_disconnected(const struct session *session, const char *who)
{
    struct log log = session->log;
    char bytes[256];
    struct writer writer = {bytes, bytes + sizeof(bytes)};

    if (log.level < LOG_INFO) {
        return;
    }
    log.describe = NULL;
    log.action = NULL;
    describe_bytes(session, &writer);
    log_info(&log, 0, "%s disconnected%.*s", who, (int) (writer.at - bytes), bytes);
}

/* The session is over: records its results, then the log phase runs. */
static void stream_proxy_carry_finish(struct proxying *proxying, unsigned status)
{
    struct session *session = proxying->session;
    struct attempt *attempt = proxying->attempt;
    uint64_t received, sent;

    count_client(session, &received, &sent);
    count_backend(proxying, &attempt->bytes_received, &attempt->bytes_sent);
    attempt->response_ms = clock_now.now_ms - proxying->attempt_ms;
    session->received += received;
    proxy_let_go(proxying, PEER_SERVED);
    session_end(session, status);
}

static void log_broken(struct session *session, int error, bool is_client)
{
    bool was_sending = error == EPIPE;
    struct log *log = &session->log;

    log->action = is_client ? (was_sending ? "proxying and sending to client"
                                           : "proxying and reading from client")
                            : (was_sending ? "proxying and sending to upstream"
                                           : "proxying and reading from upstream");
    log_at(log, is_client ? LOG_INFO : LOG_ERROR, error, "%s() failed",
           was_sending ? "send" : "recv");
}

static void relay_ended(struct relay *relay, enum relay_why why, enum relay_end side)
{
    struct proxying *proxying = container_of(relay, struct proxying, relay);
    struct session *session = proxying->session;
    bool is_client = side == RELAY_CLIENT;
    uint64_t first_ms = relay->sides[RELAY_BACKEND].first_ms;

    if (first_ms != 0) {
        proxying->attempt->first_byte_ms = first_ms - proxying->attempt_ms;
    }
    switch (why) {
    case RELAY_BROKEN:
        log_broken(session, relay->sides[side].conn->error, is_client);
        /* fall through */
    case RELAY_CLOSED:
        log_disconnected(session, is_client ? "client" : "upstream");
        break;
    case RELAY_STALLED: /* not used here: no side has stall_timeout_ms */
    case RELAY_TIMED_OUT:
        log_info(&session->log, ETIMEDOUT, "connection timed out");
        break;
    case RELAY_ABORTED:
        log_disconnected(session, proxying->is_dropped ? "session dropped, upstream"
                                                       : "shutdown timeout, client");
        break;
    }
    stream_proxy_carry_finish(proxying, proxying->is_dropped ? SESSION_BAD_GATEWAY : SESSION_OK);
}

static void abort_session(struct session *session)
{
    relay_abort(&proxying_of(session)->relay);
}

const struct session_holder proxy_holder = {
    .abort = abort_session,
    .count = count_client,
    .describe = proxy_describe,
};

/* ---- the relay ---- */

bool proxy_is_dropped(struct proxying *proxying)
{
    if (!proxying->settings->session_drop || !upstream_pick_is_gone(&proxying->pick)) {
        return false;
    }
    proxying->is_dropped = true;
    log_notice(&proxying->session->log, 0, "upstream server is gone, session dropped");
    return true;
}

static void move_on(struct proxying *proxying)
{
    if (proxy_is_dropped(proxying)) {
        relay_abort(&proxying->relay);
    } else {
        relay_move(&proxying->relay);
    }
}

static void moves(struct conn *conn)
{
    move_on(proxying_of(conn->user));
}

/* For the backend: informs balancers of the first bytes of its answer. */
static void answers(struct conn *conn)
{
    struct proxying *proxying = proxying_of(conn->user);

    if (!proxying->has_answered) {
        proxying->has_answered = true;
        upstream_pick_responded(&proxying->pick);
    }
    move_on(proxying);
}

static void is_due(struct conn *conn)
{
    relay_check_time(&proxying_of(conn->user)->relay);
}

static const struct conn_owner client_owner = {.input = moves,
                                               .drained = moves,
                                               .timed_out = is_due};
static const struct conn_owner backend_owner = {.input = answers,
                                                .drained = moves,
                                                .timed_out = is_due};

uint64_t proxy_rate(struct session *session, const struct template *template)
{
    struct str text = template_text(template, &session->env);
    uint64_t rate = 0;

    if (text.len != 0 && !parse_size(text, &rate)) {
        log_error(&session->log, 0, "invalid size \"%.*s\"", STR_ARG(text));
        return 0;
    }
    return rate;
}

enum session_step proxy_carry(struct proxying *proxying)
{
    const struct proxy_settings *settings = proxying->settings;
    struct session *session = proxying->session;
    struct conn *client = session->conn, *backend = proxying->connection->conn;

    session->log.action = "proxying connection";
    proxying->relay = (struct relay){
        .buffer_size =
            settings->buffer_size > UINT32_MAX ? UINT32_MAX : (uint32_t) settings->buffer_size,
        .timeout_ms = settings->timeout_ms,
        .ended = relay_ended,
        .sides = {[RELAY_CLIENT] = {.conn = client,
                                    .received = proxying->first_sent,
                                    .first_ms = proxying->first_sent != 0 ? clock_now.now_ms : 0,
                                    .wants_nodelay = session->server->tcp_nodelay,
                                    .is_half_close_on = settings->half_close,
                                    .rate = proxy_rate(session, settings->upload_rate)},
                  [RELAY_BACKEND] = {.conn = backend,
                                     .wants_nodelay = session->server->tcp_nodelay,
                                     .is_half_close_on = settings->half_close,
                                     .rate = proxy_rate(session, settings->download_rate)}},
    };
    conn_consume(client, proxying->first_sent);
    proxying->is_relaying = true;
    client->owner = &client_owner;
    backend->owner = &backend_owner;
    backend->user = session;
    backend->log = &session->log;
    enum session_step step = session_carry(session, &proxy_holder);
    relay_start(&proxying->relay); /* the session may be over and freed after this */
    return step;
}
