/* The life of a client's HTTP/1 connection: it is settled after each change. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/request/pace.h"
#include "http/routing/connection_settings.h"
#include "http/v1/v1.h"
#include "http/request/engine.h"
#include "net/tls/tls.h"
#include "server/generation.h"

/* ---- the struct ---- */

/* Free ones, last in, first out. */
struct free_v1 {
    struct free_v1 *next;
};
static struct free_v1 *free_ones;

static struct v1_connection *v1_connection_take(void)
{
    struct free_v1 *first = free_ones;

    if (first != NULL) {
        free_ones = first->next;
        return memset(first, 0, sizeof(struct v1_connection));
    }
    struct v1_connection *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        fatal_no_memory(sizeof(*c));
    }
    return c;
}

static void give_back(struct v1_connection *c)
{
    struct free_v1 *freed = (struct free_v1 *) (void *) c;

    c->magic = 0;
    freed->next = free_ones;
    free_ones = freed;
}

/* A client's connection that speaks HTTP/1, as its owners know it. */
static struct v1_connection *v1_state(const struct http_connection *connection)
{
    struct v1_connection *c = connection->wire_state;

    CHECK_MAGIC(c, V1_CONNECTION_MAGIC);
    return c;
}

/* ---- settling ---- */

/* Logs and recycles requests whose bytes are all sent. */
static void recycle_sent(struct v1_connection *c)
{
    struct conn *conn = c->conn;

    while (!list_is_empty(&c->unfinished)) {
        struct request *request = container_of(c->unfinished.next, struct request, node);

        if (request == c->current || (conn->sent < request->delivery.end && !conn->is_broken)) {
            return;
        }
        list_remove(&request->node);
        if (conn->is_broken && conn->error == EIO && conn->sent < request->delivery.end) {
            request->log.action = "sending response to client";
            log_alert(&request->log, 0, "sendfile() reported that a file was truncated at %llu",
                      (unsigned long long) (conn->sent - request->delivery.head_end));
        }
        request->delivery.sent =
            conn->sent < request->delivery.end ? conn->sent : request->delivery.end;
        counters_mine->writing -= list_is_empty(&c->unfinished);
        c->unfinished_count--;
        c->logs_first = c->logs_first && c->unfinished_count != 0;
        request_log(request);
        request_free(request);
    }
}

/* The last response is out: the connection ends, gently where the client may still be sending. */
static void v1_connection_finish(struct v1_connection *c)
{
    struct http_connection *connection = c->connection;
    if (connection->wants_reset) {
        connection_end(connection);
    } else if (connection->linger_until_ms != 0 && !c->conn->is_input_closed &&
               !c->conn->is_broken) {
        connection_linger(connection);
    } else {
        connection_end_later(connection);
    }
}

/* A head is there in part, or a request is worked on, or output waits: what the connection waits
 * for. */
static void wait_on(struct v1_connection *c)
{
    struct http_connection *connection = c->connection;
    struct conn *conn = c->conn;

    if (c->current == NULL && !list_is_empty(&c->unfinished)) {
        struct request *request = container_of(c->unfinished.next, struct request, node);
        conn_set_deadline(conn,
                          pace_send_begins(request, conn->sent,
                                           clock_now.now_ms + connection->last_location->connections
                                                                  ->send_timeout_ms));
    } else if (c->current == NULL && conn->in_end != conn->in_start) {
        if (connection->stage == STAGE_IDLE || conn->timer.deadline_ms == NO_DEADLINE) {
            conn_set_deadline(conn, clock_now.now_ms +
                                        connection_server(connection)->client_header_timeout_ms);
        }
        connection->stage = STAGE_SERVING;
    }
    /* A head that does not become whole gives way when connections run out, as what rests does. */
    bool is_waiting_for_head = c->current == NULL && list_is_empty(&c->unfinished);
    if (is_waiting_for_head ? !conn_park(conn) : !conn_watch(conn)) {
        connection_close(connection);
    }
}

/* Times that a connection which sends request after request continues before others get their turn.
 */
#define PUMP_ROUNDS 8

/* Is there input to read or to parse, and has the client taken what it asked for so far? */
static bool may_pump(const struct v1_connection *c)
{
    const struct conn *conn = c->conn;

    return c->current == NULL && !c->connection->is_last && !conn->is_broken &&
           conn_unsent(conn) == 0 &&
           (conn->is_readable || (conn->in_end != conn->in_start && c->open_head == NULL));
}

/* The client has left while no request was on its way: before its first, or between two. */
static void log_leaving(struct v1_connection *c, int error)
{
    struct http_connection *connection = c->connection;
    struct log log;

    if (connection->listen->log.level < LOG_INFO) {
        return;
    }
    connection_log(connection, "waiting for request", &log);
    if (connection->requests == 0) {
        log_info(&log, error, "client closed connection");
        return;
    }
    struct str address = connection_address(connection);
    log.action = NULL;
    log.describe = NULL;
    log_info(&log, error, "client %.*s closed keepalive connection", STR_ARG(address));
}

/* Has the client reset a connection on which nothing is under way? */
static bool was_reset_idle(const struct v1_connection *c)
{
    const struct conn *conn = c->conn;

    return conn->error == ECONNRESET && c->current == NULL && !c->connection->is_last &&
           list_is_empty(&c->unfinished) && conn->in_end == conn->in_start;
}

void v1_settle(struct http_connection *connection)
{
    struct v1_connection *c = v1_state(connection);
    struct conn *conn = c->conn;

    for (unsigned rounds = 0;; rounds++) {
        /* Not in early data: the FIN waits for the end of the handshake. */
        conn->is_last_output = connection->is_last && c->current == NULL &&
                               !connection->wants_reset && !tls_is_early(conn);
        conn_flush(conn);
        recycle_sent(c);
        if (!may_pump(c)) {
            break;
        }
        if (rounds == PUMP_ROUNDS) {
            loop_defer_next(&connection->settle); /* others first */
            return;
        }
        v1_pump(c);
    }
    if (conn->is_broken) {
        if (c->current == NULL) {
            if (was_reset_idle(c)) {
                log_leaving(c, conn->error);
            }
            connection_end(connection);
        } else {
            request_cancel(c->current);
        }
        return;
    }
    if (c->current != NULL || !list_is_empty(&c->unfinished)) {
        wait_on(c);
        return;
    }
    if (connection->is_last) {
        v1_connection_finish(c);
    } else if (conn->is_input_closed) {
        if (c->open_head != NULL) {
            v1_log_open_head(c, 400, 0, "client prematurely closed connection");
        } else {
            log_leaving(c, 0);
        }
        connection_close(connection);
    } else if (conn->in_end != conn->in_start) {
        wait_on(c);
    } else {
        connection_go_idle(connection);
    }
}

/* A client that closes while its request waits for something else than the client. */
static void input_while_working(struct v1_connection *c)
{
    struct conn *conn = c->conn;

    if (c->current->tunnel != NULL) {
        c->current->tunnel->moves(c->current);
        return;
    }
    if (conn->input_wait.waiter != NULL) {
        conn_wake_input(conn);
        return;
    }
    bool may_leave =
        conn->output_wait.waiter == NULL && c->current->response.framing != FRAMING_TUNNEL;

    if (conn->is_broken || (may_leave && conn_peer_is_gone(conn))) {
        c->connection->is_last = true;
        request_cancel(c->current);
    } else if (may_leave && conn->is_peer_closed && c->current->abort_watcher != NULL) {
        request_cancel(c->current); /* what is left to read is no reason not to report it */
    }
}

static void on_input(struct conn *conn)
{
    struct v1_connection *c = v1_state(connection_of(conn));

    if (c->current != NULL) {
        input_while_working(c);
        return;
    }
    if (c->connection->stage == STAGE_IDLE) {
        c->connection->stage = STAGE_SERVING;
        conn->timer.deadline_ms = NO_DEADLINE;
    }
    v1_pump(c);
    v1_settle(c->connection);
}

static void on_drained(struct conn *conn)
{
    struct v1_connection *c = v1_state(connection_of(conn));

    if (c->current != NULL && c->current->tunnel != NULL) {
        c->current->tunnel->moves(c->current);
    } else {
        v1_settle(c->connection);
    }
}

static void on_timeout(struct conn *conn)
{
    struct v1_connection *c = v1_state(connection_of(conn));
    struct http_connection *connection = c->connection;
    const struct http_location *location = connection->last_location;
    /* Over TLS the first request may be waited for while idle. */
    bool is_awaited = connection->stage != STAGE_IDLE || connection->requests == 0;
    struct log log;

    if (c->current != NULL) {
        if (c->current->tunnel != NULL) {
            c->current->tunnel->is_due(c->current);
        }
        return; /* else its fiber keeps its own deadlines */
    }
    if (deferred_is_pending(&connection->settle)) {
        return; /* its request ended this very turn: this was the time of the head */
    }
    struct request *unfinished = list_is_empty(&c->unfinished)
                                     ? NULL
                                     : container_of(c->unfinished.next, struct request, node);
    bool is_slow = unfinished != NULL && !pace_send_ended(unfinished, conn->sent);
    if (unfinished != NULL && !is_slow &&
        conn->moved_ms + location->connections->send_timeout_ms > clock_now.now_ms) {
        /* It continues to read. */
        conn_set_deadline(conn, pace_send_begins(unfinished, conn->sent,
                                                 conn->moved_ms +
                                                     location->connections->send_timeout_ms));
        return;
    }
    if (is_slow) {
        connection->wants_reset = location->connections->reset_timedout_connection;
    } else if (unfinished != NULL) {
        struct request *request = unfinished;
        request->log.action = "sending to client";
        log_info(&request->log, ETIMEDOUT, "client timed out");
        request->is_timed_out = true;
    } else if (c->open_head != NULL) {
        v1_log_open_head(c, 408, ETIMEDOUT, "client timed out");
    } else if (is_awaited) {
        connection_log(connection, "waiting for request", &log);
        log_info(&log, ETIMEDOUT, "client timed out");
    }
    connection->wants_reset = is_awaited && location->connections->reset_timedout_connection;
    conn_fail(conn, ETIMEDOUT);
    recycle_sent(c);
    connection_end(connection);
}

/* ---- the protocol ---- */

static void v1_connection_begin(struct http_connection *connection)
{
    struct v1_connection *c = v1_connection_take();

    c->magic = V1_CONNECTION_MAGIC;
    c->connection = connection;
    c->conn = connection->conn;
    list_init(&c->unfinished);
    connection->wire_state = c;
}

static void v1_connection_end(struct http_connection *connection)
{
    struct v1_connection *c = v1_state(connection);

    v1_forget_open_head(c);
    give_back(c);
}

static void abort_connection(struct http_connection *connection)
{
    struct v1_connection *c = v1_state(connection);

    conn_fail(c->conn, ECANCELED);
    if (c->current != NULL) {
        connection->is_last = true;
        request_cancel(c->current);
    } else {
        loop_defer(&connection->settle);
    }
}

static struct request *current(const struct http_connection *connection)
{
    return v1_state(connection)->current;
}

const struct http_protocol v1_protocol = {
    .alpn = STR_INIT("\x08http/1.1\x08http/1.0\x08http/0.9"),
    .action = "waiting for request",
    .owner = {.input = on_input,
              .drained = on_drained,
              .timed_out = on_timeout,
              .hand_over = idle_hand_over},
    .begin = v1_connection_begin,
    .end = v1_connection_end,
    .settle = v1_settle,
    .abort = abort_connection,
    .current = current,
};

/* ---- the end of a request ---- */

/* May more of this request's body come, or other input that we shall not read? Then closing at once
 * could destroy the response on its way. */
static bool wants_lingering(const struct request *request)
{
    const struct conn *conn = v1_conn(request);

    switch (request->location->connections->lingering_close) {
    case LINGERING_ALWAYS:
        return true;
    case LINGERING_ON:
        return request->is_lingering_forced || !request->incoming.is_read ||
               conn->in_end != conn->in_start || tls_is_early(conn);
    default:
        return false;
    }
}

void v1_request_ended(struct request *request, enum handler_result result)
{
    const struct response *response = &request->response;
    struct http_connection *connection = request->connection;
    struct v1_connection *c = v1_state(connection);
    struct conn *conn = c->conn;

    if (!request->incoming.is_read) {
        request->keepalive = false;
    }
    request->delivery.end = conn->queued;
    connection->last_location = request->location;
    c->current = NULL;
    if (response->is_broken && response->progress != RESPONSE_NOT_SENT &&
        response->framing != FRAMING_CHUNKED && response->content_length < 0) {
        /* The body was to end with the connection: only a reset shows that it is not whole. */
        connection->wants_reset = true;
    }
    if (result == HANDLER_CLOSED) {
        request->keepalive = false;
        connection->is_last = true;
        connection->wants_reset |= request->location->connections->reset_timedout_connection &&
                                   (request->is_timed_out || request->response.status == 444);
        conn_fail(conn, ECANCELED);
    } else if (!request->keepalive || result == HANDLER_CUT) {
        request->keepalive = false;
        connection->is_last = true;
        if (wants_lingering(request)) {
            connection->linger_until_ms =
                clock_now.now_ms + request->location->connections->lingering_time_ms;
        }
    }
    if (!c->is_pumping) {
        loop_defer(&connection->settle);
    }
}

void v1_log_first(struct request *request)
{
    struct v1_connection *c = v1_state(request->connection);

    c->logs_first = true;
}

struct request *v1_former(const struct request *request)
{
    const struct v1_connection *c = v1_state(request->connection);

    return request->node.prev == &c->unfinished
               ? NULL
               : container_of(request->node.prev, struct request, node);
}
