/* The life of a client's HTTP/1 connection: it is settled after each change. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/v1/v1.h"
#include "http/request/engine.h"
#include "net/tls/tls.h"
#include "server/generation.h"

/* ---- settling ---- */

/* Logs and recycles requests whose bytes are all sent. */
static void recycle_sent(struct http_connection *http)
{
    struct conn *conn = http->conn;

    while (!list_is_empty(&http->unfinished)) {
        struct request *request = container_of(http->unfinished.next, struct request, link);

        if (request == http->current || (conn->sent < request->out_end && !conn->is_broken)) {
            return;
        }
        list_remove(&request->link);
        if (conn->is_broken && conn->error == EIO && conn->sent < request->out_end) {
            request->log.action = "sending response to client";
            log_alert(&request->log, 0, "sendfile() reported that a file was truncated at %llu",
                      (unsigned long long) (conn->sent - request->out_head_end));
        }
        request->out_sent = conn->sent < request->out_end ? conn->sent : request->out_end;
        counters_mine->writing -= list_is_empty(&http->unfinished);
        http->unfinished_count--;
        if (request->logs_first) {
            http->logs_first = false;
        }
        request_log(request);
        request_free(request);
    }
}

/* The last response is out: the connection ends, gently where the client may still be sending. */
static void connection_finish(struct http_connection *http)
{
    if (http->wants_reset) {
        connection_end(http);
    } else if (http->linger_until_ms != 0 && !http->conn->is_input_closed &&
               !http->conn->is_broken) {
        connection_linger(http);
    } else {
        connection_end_later(http);
    }
}

/* A head is there in part, or a request is worked on, or output waits: what the connection waits
 * for. */
static void wait_on(struct http_connection *http)
{
    struct conn *conn = http->conn;

    if (http->current == NULL && !list_is_empty(&http->unfinished)) {
        conn_set_deadline(conn, clock_now.now_ms + http->rest_location->send_timeout_ms);
    } else if (http->current == NULL && conn->in_end != conn->in_start) {
        if (http->stage == STAGE_IDLE || conn->timer.deadline_ms == NO_DEADLINE) {
            conn_set_deadline(conn,
                              clock_now.now_ms + connection_server(http)->client_header_timeout_ms);
        }
        http->stage = STAGE_SERVING;
    }
    /* A head that does not become whole gives way when connections run out, as what rests does. */
    bool is_waiting_for_head = http->current == NULL && list_is_empty(&http->unfinished);
    if (is_waiting_for_head ? !conn_park(conn) : !conn_watch(conn)) {
        connection_close(http);
    }
}

/* Times that a connection which sends request after request goes on before others get their turn. */
#define PUMP_ROUNDS 8

/* Is there input to read or to parse, and has the client taken what it asked for so far? */
static bool may_pump(const struct http_connection *http)
{
    const struct conn *conn = http->conn;

    return http->current == NULL && !http->is_last && !conn->is_broken && conn_unsent(conn) == 0 &&
           (conn->is_readable || (conn->in_end != conn->in_start && !http->was_parsed_partly));
}

/* The client has left while no request was on its way: before its first, or between two. */
static void log_leaving(struct http_connection *http, int error)
{
    struct log log;

    if (http->listen->log.level < LOG_INFO) {
        return;
    }
    connection_log(http, "waiting for request", &log);
    if (http->requests == 0) {
        log_info(&log, error, "client closed connection");
        return;
    }
    struct str address = connection_address(http);
    log.action = NULL;
    log.describe = NULL;
    log_info(&log, error, "client %.*s closed keepalive connection", STR_ARG(address));
}

/* Has the client reset a connection on which nothing is under way? */
static bool was_reset_idle(const struct http_connection *http)
{
    const struct conn *conn = http->conn;

    return conn->error == ECONNRESET && http->current == NULL && !http->is_last &&
           list_is_empty(&http->unfinished) && conn->in_end == conn->in_start;
}

void v1_settle(struct http_connection *http)
{
    struct conn *conn = http->conn;

    for (unsigned rounds = 0;; rounds++) {
        conn->is_last_output = http->is_last && http->current == NULL;
        conn_flush(conn);
        recycle_sent(http);
        if (!may_pump(http)) {
            break;
        }
        if (rounds == PUMP_ROUNDS) {
            loop_defer_next(&http->settle); /* others first */
            return;
        }
        v1_pump(http);
    }
    if (conn->is_broken) {
        if (http->current == NULL) {
            if (was_reset_idle(http)) {
                log_leaving(http, conn->error);
            }
            connection_end(http);
        } else {
            request_cancel(http->current);
        }
        return;
    }
    if (http->current != NULL || !list_is_empty(&http->unfinished)) {
        wait_on(http);
        return;
    }
    if (http->is_last) {
        connection_finish(http);
    } else if (conn->is_input_closed) {
        if (http->was_parsed_partly) {
            v1_log_open_head(http, 400, 0, "client prematurely closed connection");
        } else {
            log_leaving(http, 0);
        }
        connection_close(http);
    } else if (conn->in_end != conn->in_start) {
        wait_on(http);
    } else {
        connection_go_idle(http);
    }
}

/* A client that closes while its request waits for something else than the client. */
static void input_while_working(struct http_connection *http)
{
    struct conn *conn = http->conn;

    if (http->current->tunnel != NULL) {
        http->current->tunnel->moves(http->current);
        return;
    }
    if (conn->input_wait.waiter != NULL) {
        conn_wake_input(conn);
        return;
    }
    if (conn->is_broken || (conn->output_wait.waiter == NULL &&
                            !http->current->response.is_tunnel && conn_peer_is_gone(conn))) {
        http->is_last = true;
        request_cancel(http->current);
    }
}

static void on_input(struct conn *conn)
{
    struct http_connection *http = conn->user;

    if (http->current != NULL) {
        input_while_working(http);
        return;
    }
    if (http->stage == STAGE_IDLE) {
        http->stage = STAGE_SERVING;
        conn->timer.deadline_ms = NO_DEADLINE;
    }
    v1_pump(http);
    v1_settle(http);
}

static void on_drained(struct conn *conn)
{
    struct http_connection *http = conn->user;

    if (http->current != NULL && http->current->tunnel != NULL) {
        http->current->tunnel->moves(http->current);
    } else {
        v1_settle(http);
    }
}

static void on_timeout(struct conn *conn)
{
    struct http_connection *http = conn->user;
    const struct http_location *location = http->rest_location;
    /* Over TLS the first request may be waited for at rest. */
    bool is_awaited = http->stage != STAGE_IDLE || http->requests == 0;
    struct log log;

    if (http->current != NULL) {
        if (http->current->tunnel != NULL) {
            http->current->tunnel->is_due(http->current);
        }
        return; /* else its fiber keeps its own deadlines */
    }
    if (deferred_is_pending(&http->settle)) {
        return; /* its request ended this very turn: this was the time of the head */
    }
    if (!list_is_empty(&http->unfinished) &&
        conn->moved_ms + location->send_timeout_ms > clock_now.now_ms) {
        conn_set_deadline(conn,
                          conn->moved_ms + location->send_timeout_ms); /* it goes on reading */
        return;
    }
    if (!list_is_empty(&http->unfinished)) {
        struct request *request = container_of(http->unfinished.next, struct request, link);
        request->log.action = "sending to client";
        log_info(&request->log, ETIMEDOUT, "client timed out");
        request->is_timed_out = true;
    } else if (http->was_parsed_partly) {
        v1_log_open_head(http, 408, ETIMEDOUT, "client timed out");
    } else if (is_awaited) {
        connection_log(http, "waiting for request", &log);
        log_info(&log, ETIMEDOUT, "client timed out");
    }
    http->wants_reset = is_awaited && location->reset_timedout_connection;
    conn_fail(conn, ETIMEDOUT);
    recycle_sent(http);
    connection_end(http);
}

static void abort_connection(struct http_connection *http)
{
    conn_fail(http->conn, ECANCELED);
    if (http->current != NULL) {
        http->is_last = true;
        request_cancel(http->current);
    } else {
        loop_defer(&http->settle);
    }
}

const struct http_protocol v1_protocol = {
    .alpn = STR_INIT("\x08http/1.1\x08http/1.0\x08http/0.9"),
    .action = "waiting for request",
    .owner = {.input = on_input,
              .drained = on_drained,
              .timed_out = on_timeout,
              .hand_over = idle_hand_over},
    .settle = v1_settle,
    .abort = abort_connection,
};

/* ---- the end of a request ---- */

/* May more of this request's body come, or other input that we shall not read? Then closing at once
 * could destroy the response on its way. */
static bool wants_lingering(const struct request *request)
{
    const struct conn *conn = request->conn;

    switch (request->location->lingering_close) {
    case LINGERING_ALWAYS:
        return true;
    case LINGERING_ON:
        return request->is_lingering_forced || !request->is_body_read ||
               conn->in_end != conn->in_start || tls_is_early(conn);
    default:
        return false;
    }
}

/* A body that was to end with the connection and broke off: only a reset tells the client that it is not whole. */
static bool must_reset(const struct request *request)
{
    const struct response *response = &request->response;

    return response->is_broken && response->is_head_sent && !response->is_chunked &&
           response->content_length < 0;
}

void v1_request_ended(struct request *request, enum flow flow)
{
    struct http_connection *http = request->http;
    struct conn *conn = request->conn;

    if (!request->is_body_read) {
        request->keepalive = false;
    }
    request->out_end = conn->queued;
    http->rest_location = request->location;
    http->current = NULL;
    if (must_reset(request)) {
        http->wants_reset = true;
    }
    if (flow == FLOW_CLOSED) {
        request->keepalive = false;
        http->is_last = true;
        http->wants_reset |= request->location->reset_timedout_connection &&
                             (request->is_timed_out || request->response.status == 444);
        conn_fail(conn, ECANCELED);
    } else if (!request->keepalive || flow == FLOW_CUT) {
        request->keepalive = false;
        http->is_last = true;
        if (wants_lingering(request)) {
            http->linger_until_ms = clock_now.now_ms + request->location->lingering_time_ms;
        }
    }
    if (!http->is_pumping) {
        loop_defer(&http->settle);
    }
}
