/* The life of a client's HTTP/1 connection: it begins, is settled after each change, and ends. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/v1/v1.h"
#include "http/v2/v2.h"
#include "net/tls/tls.h"
#include "server/generation.h"

/* ---- accepting ---- */

void v1_begin(struct http_connection *http)
{
    struct conn *conn = http->conn;
    const struct http_server *server = http->listen->default_server;

    http->rest_location = server->root;
    http->state = http->listen->is_proxy_protocol ? V1_PROXY : V1_READING;
    conn_set_deadline(conn, clock_now.now_ms + server->client_header_timeout_ms);
}

static void end_connection(struct http_connection *http)
{
    if (http->wants_reset) {
        connection_reset(http);
    } else {
        connection_close(http);
    }
}

static void settle_deferred(struct deferred *deferred)
{
    struct http_connection *http = container_of(deferred, struct http_connection, settle);

    if (http->state == V1_ENDING) {
        end_connection(http);
    } else {
        v1_settle(http);
    }
}

struct http_connection *v1_make(struct listener *listener, int fd, const struct addr *peer)
{
    struct http_connection *http = connection_new(listener->user, fd, peer, &v1_owner);

    if (http != NULL) {
        http->conn->listener = listener;
        http->protocol = &v1_protocol;
        deferred_init(&http->settle, settle_deferred);
    }
    return http;
}

void http_accepted(struct listener *listener, int fd, const struct addr *peer)
{
    struct http_connection *http = v1_make(listener, fd, peer);

    counters_mine->accepted++;
    if (http != NULL) {
        counters_mine->handled++;
        v1_begin(http);
        if (http->listen->detects_http2) {
            http->conn->owner = &v2_detecting_owner;
        }
        conn_start(http->conn);
    }
}

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
        request_log(request);
        request_free(request);
    }
}

/* The last response is out: the connection ends, gently where the client may still be sending. Who sees
 * its end may look for the log line at once. */
static void finish(struct http_connection *http)
{
    if (http->linger_until_ms != 0 && !http->conn->is_input_closed && !http->conn->is_broken) {
        v1_linger(http, http->rest_location);
        return;
    }
    http->state = V1_ENDING;
    http->conn->is_ending = 1;
    loop_undefer(&http->settle);
    loop_defer_last(&http->settle);
}

/* A head is there in part, or a request is worked on, or output waits: what the connection waits
 * for. */
static void wait_on(struct http_connection *http)
{
    struct conn *conn = http->conn;

    if (http->current == NULL && !list_is_empty(&http->unfinished)) {
        conn_set_deadline(conn, clock_now.now_ms + http->rest_location->send_timeout_ms);
    } else if (http->current == NULL && conn->in_end != conn->in_start) {
        if (http->state == V1_RESTING || conn->timer.deadline_ms == NO_DEADLINE) {
            conn_set_deadline(conn, clock_now.now_ms +
                                        http->listen->default_server->client_header_timeout_ms);
        }
        http->state = V1_READING;
    }
    /* A head that does not become whole gives way when connections run out, as what rests does. */
    bool is_waiting_for_head = http->current == NULL && list_is_empty(&http->unfinished);
    if (is_waiting_for_head ? !conn_park(conn) : !conn_watch(conn)) {
        connection_close(http);
    }
}

static void send_and_recycle(struct http_connection *http)
{
    http->conn->is_last_output = http->is_last && http->current == NULL;
    conn_flush(http->conn);
    recycle_sent(http);
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

void v1_settle(struct http_connection *http)
{
    struct conn *conn = http->conn;

    if (http->state == V1_ENDING) {
        return;
    }
    send_and_recycle(http);
    for (unsigned rounds = 0; may_pump(http); rounds++) {
        if (rounds == PUMP_ROUNDS) {
            loop_defer_next(&http->settle); /* others first */
            return;
        }
        v1_pump(http);
        send_and_recycle(http);
    }
    if (conn->is_broken) {
        if (http->current == NULL) {
            end_connection(http);
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
        finish(http);
    } else if (conn->is_input_closed) {
        if (http->was_parsed_partly) {
            v1_log_open_head(http, 400, 0, "client prematurely closed connection");
        }
        connection_close(http);
    } else if (conn->in_end != conn->in_start) {
        wait_on(http);
    } else {
        v1_rest(http);
    }
}

/* A client that closes while its request waits for something else than the client. */
static void input_while_working(struct http_connection *http)
{
    struct conn *conn = http->conn;

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

    if (http->state == V1_ENDING) {
        return;
    }
    if (http->state == V1_PROXY && !v1_read_proxy_header(http)) {
        return;
    }
    if (http->current != NULL) {
        input_while_working(http);
        return;
    }
    if (http->state == V1_RESTING) {
        http->state = V1_READING;
        conn->timer.deadline_ms = NO_DEADLINE;
    }
    v1_pump(http);
    v1_settle(http);
}

static void on_drained(struct conn *conn)
{
    v1_settle(conn->user);
}

static void on_timeout(struct conn *conn)
{
    struct http_connection *http = conn->user;
    const struct http_location *location = http->rest_location;
    /* Over TLS the first request may be waited for at rest. */
    bool is_awaited = http->state != V1_RESTING || http->requests == 0;
    struct log log;

    if (http->current != NULL || http->state == V1_ENDING) {
        return; /* its fiber keeps its own deadlines */
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
    end_connection(http);
}

const struct conn_owner v1_owner = {
    .input = on_input,
    .drained = on_drained,
    .timed_out = on_timeout,
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
    if (flow == FLOW_CLOSED) {
        request->keepalive = false;
        http->is_last = true;
        http->wants_reset = request->location->reset_timedout_connection &&
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
