/* The life of a client's HTTP/1 connection: read heads, start requests, settle what was sent, rest,
 * close. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/v1/v1.h"
#include "server/generation.h"

#define FIRST_BUFFER                                                                               \
    4096 /* bytes; more than client_header_buffer_size's 1k, since it is given back at rest */

static const struct conn_owner v1_owner;

/* ---- accepting ---- */

static void begin(struct http_connection *http)
{
    struct conn *conn = http->conn;
    const struct http_server *server = http->listen->default_server;

    http->rest_location = server->root;
    http->state = http->listen->is_proxy_protocol ? V1_PROXY : V1_READING;
    conn_set_deadline(conn, clock_now.now_ms + server->client_header_timeout_ms);
}

static void settle_deferred(struct deferred *deferred)
{
    v1_settle(container_of(deferred, struct http_connection, settle));
}

static struct http_connection *make(struct listener *listener, int fd, const struct addr *peer)
{
    struct http_connection *http = connection_new(listener->user, fd, peer, &v1_owner);

    if (http != NULL) {
        http->conn->listener = listener;
        deferred_init(&http->settle, settle_deferred);
    }
    return http;
}

void http_accepted(struct listener *listener, int fd, const struct addr *peer)
{
    struct http_connection *http = make(listener, fd, peer);

    counters_mine->accepted++;
    if (http != NULL) {
        counters_mine->handled++;
        begin(http);
        conn_start(http->conn);
    }
}

/* What goes with a descriptor to the next generation's worker. */
struct handover_state {
    uint32_t requests;
    uint64_t start_ms;
};

static void rest(struct http_connection *http);

void http_handed_over(struct listener *listener, int fd, const struct addr *peer, const void *state,
                      size_t size)
{
    struct http_connection *http = make(listener, fd, peer);

    if (http == NULL) {
        return;
    }
    begin(http);
    http->was_handed_over = true;
    http->state = V1_READING;
    if (size == sizeof(struct handover_state)) {
        struct handover_state from;
        memcpy(&from, state, sizeof(from));
        http->requests = from.requests;
        http->start_ms = from.start_ms;
    }
    rest(http);
}

/* ---- resting ---- */

bool v1_can_hand_over(const struct http_connection *http)
{
    return handover_now != NULL && http->conn->transport == NULL &&
           !http->listen->is_proxy_protocol &&
           handover_now->takes(handover_now, http->listen->listener);
}

/* Passes an idle connection to the new worker of this slot. True: it is gone from here. */
static bool hand_over(struct http_connection *http)
{
    struct handover_state state = {http->requests, http->start_ms};
    struct listener *listener = http->listen->listener;

    if (!v1_can_hand_over(http)) {
        return false;
    }
    int copy = fcntl(http->conn->source.fd, F_DUPFD_CLOEXEC, 0);
    if (copy == -1) {
        return false;
    }
    if (!handover_now->send(handover_now, listener, copy, &state, sizeof(state))) {
        close(copy);
        return false;
    }
    connection_close(http); /* our descriptor of it; the connection lives on over there */
    return true;
}

/* keepalive_min_timeout: is the connection still to get a last answer although the worker quits? */
static bool is_too_young(const struct http_connection *http)
{
    return clock_now.now_ms - http->start_ms < http->rest_location->keepalive_min_timeout_ms;
}

static void quit_one(struct conn *conn, void *arg)
{
    (void) arg;
    struct http_connection *http = conn->user;

    if (conn->owner != &v1_owner || conn_input(conn).len != 0 || http->requests == 0) {
        return; /* a client that has just connected is about to speak */
    }
    if (hand_over(http) || worker_is_replaced) {
        return;
    }
    if (is_too_young(http)) {
        conn_set_deadline(conn, http->start_ms + http->rest_location->keepalive_min_timeout_ms);
    } else {
        connection_close(http);
    }
}

void connections_quit(void)
{
    conn_each_idle(quit_one, NULL);
}

/* Idle from now on: no buffers, no request, the keep-alive deadline. The connection may be gone
 * afterwards. */
static void rest(struct http_connection *http)
{
    struct conn *conn = http->conn;
    const struct http_location *location = http->rest_location;

    if (worker_is_quitting && http->requests != 0) {
        if (hand_over(http)) {
            return;
        }
        if (!worker_is_replaced && !is_too_young(http)) {
            connection_close(http);
            return;
        }
    }
    http->state = V1_RESTING;
    if (http->details != NULL && http->details->proxy == NULL) {
        free(http->details);
        http->details = NULL;
    }
    conn_set_deadline(conn, clock_now.now_ms +
                                (http->requests == 0
                                     ? http->listen->default_server->client_header_timeout_ms
                                     : location->keepalive_timeout_ms));
    if (!conn_park(conn)) {
        connection_close(http);
    }
}

/* ---- reading heads ---- */

/* An input buffer in which the heads of live requests lie. */
struct kept_buffer {
    char *data;
    uint32_t size;
};

static void release_buffer(void *arg)
{
    struct kept_buffer *kept = arg;

    conn_buffer_free(kept->data, kept->size);
}

/* The buffer goes to the newest request that uses it; reading goes on in a fresh one. */
static void keep_buffer(struct http_connection *http)
{
    struct request *newest = container_of(http->unfinished.prev, struct request, link);
    struct kept_buffer *kept = arena_alloc(&newest->arena, sizeof(*kept));

    kept->data = conn_input_detach(http->conn, &kept->size);
    if (kept->data != NULL) {
        arena_on_free(&newest->arena, release_buffer, kept);
    }
}

/* More bytes into the buffer, which may not move while requests use heads in it. */
static bool fill(struct http_connection *http, uint32_t max)
{
    struct conn *conn = http->conn;
    size_t unread = conn->in_end - conn->in_start;

    if (!list_is_empty(&http->unfinished) && conn->in != NULL &&
        (conn->in_end == conn->in_size || conn->in_start == conn->in_end)) {
        keep_buffer(http);
    }
    if (unread >= max) {
        return false;
    }
    return conn_fill(conn, FIRST_BUFFER, max + FIRST_BUFFER);
}

/* Reads the PROXY protocol's header. False: the connection waits for more of it, or is gone. */
static bool read_proxy_header(struct http_connection *http)
{
    struct conn *conn = http->conn;
    struct proxy_header *proxy;
    size_t used;

    conn_fill(conn, FIRST_BUFFER, PROXY_HEADER_MAX + FIRST_BUFFER);
    switch (proxy_header_parse(conn_input(conn), &proxy, &used)) {
    case PROXY_HEADER_DONE:
        connection_details(http)->proxy = proxy;
        conn_consume(conn, used);
        http->state = V1_READING;
        return true;
    case PROXY_HEADER_MORE:
        if (!conn->is_input_closed && !conn->is_broken) {
            if (!conn_watch(conn)) {
                connection_close(http);
            }
            return false;
        }
        break;
    case PROXY_HEADER_BAD: {
        struct log log;
        struct str start = str_head(conn_input(conn), 80);
        connection_log(http, "reading PROXY protocol", &log);
        counters_mine->limited++;
        log_error(&log, 0, "broken header: \"%.*s\"", STR_ARG(start));
        break;
    }
    }
    connection_close(http);
    return false;
}

/* A request that gets its answer without being looked at; nothing behind it is read as a request. */
static void start_last(struct http_connection *http, struct request *request, unsigned status)
{
    http->is_last = true;
    request->keepalive = false;
    request->is_lingering_forced = true;
    request->is_body_read = true;
    request->response.status = status;
    request_start(request);
}

/* A request whose head cannot be taken: answered with the status, and the last one. */
static void refuse(struct http_connection *http, struct request *request, const struct head *head)
{
    const char *stage =
        head->is_line_done ? "reading client request headers" : "reading client request line";
    request->log.action = stage;
    if (head->culprit.len != 0) {
        struct str culprit = str_head(head->culprit, 1024);
        log_info(&request->log, 0, "%s: \"%.*s\"", head->reason, STR_ARG(culprit));
    } else {
        log_info(&request->log, 0, "%s", head->reason);
    }
    if (head->status == 414 || head->status == 494) {
        counters_mine->limited++;
    }
    v1_request_setup(request, head);
    start_last(http, request, head->status);
}

/* A whole head: the request begins. */
static void start(struct http_connection *http, struct request *request, const struct head *head)
{
    request->log.action = NULL;
    unsigned status = v1_request_setup(request, head);
    if (head->dropped != 0) {
        log_info(&request->log, 0, "client sent invalid header line: \"%.*s\"",
                 STR_ARG(head->culprit));
    }
    http->requests++;
    if (status != 0) {
        start_last(http, request, status);
    } else {
        request_start(request);
    }
}

/* Notes whether a head is there in part; the connection counts as being read then. */
static void set_reading(struct http_connection *http, bool is_reading)
{
    counters_mine->reading += (uint64_t) is_reading - http->was_parsed_partly;
    http->was_parsed_partly = is_reading;
}

/* Parses what is there. True: a request was started (or refused), the pump goes on. */
static bool read_head(struct http_connection *http)
{
    struct conn *conn = http->conn;
    const struct head_limits *limits = &http->listen->default_server->head_limits;
    struct request *request = request_new(conn, http, &v1_wire);
    struct head head;
    struct str input = conn_input(conn);
    enum parse_result result = head_parse(input, limits, &request->arena, &request->headers, &head);

    if (result == PARSE_MORE) {
        request_free(request);
        return false;
    }
    http->current = request;
    request->is_pipelined = !list_is_empty(&http->unfinished);
    counters_mine->writing += list_is_empty(&http->unfinished);
    list_push_back(&http->unfinished, &request->link);
    if (result == PARSE_BAD) {
        conn->in_start = conn->in_end;
        refuse(http, request, &head);
        return true;
    }
    conn_consume(conn, head.end);
    start(http, request, &head);
    return true;
}

/* Does the input that came last end a line, so that it is worth to parse again? */
static bool has_line_end(struct str added)
{
    return memchr(added.data, '\n', added.len) != NULL;
}

/* How far requests are answered ahead of a client that does not read: bytes and responses. */
#define PIPELINE_BYTES (256 * 1024)

/* Reads and starts requests while there is input and nothing to wait for. */
static void pump(struct http_connection *http)
{
    struct conn *conn = http->conn;
    const struct head_limits *limits = &http->listen->default_server->head_limits;

    http->is_pumping = true;
    while (http->current == NULL && !http->is_last && conn_unsent(conn) < PIPELINE_BYTES) {
        size_t before = conn->in_end - conn->in_start;
        bool is_new = before != 0 && !http->was_parsed_partly;

        if (!is_new) {
            if (!conn->is_readable || !fill(http, limits->head_max)) {
                break;
            }
            struct str input = conn_input(conn);
            if (http->was_parsed_partly && input.len < limits->line_max &&
                !has_line_end(str_skip(input, before))) {
                continue;
            }
        }
        set_reading(http, !read_head(http));
    }
    http->is_pumping = false;
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
        request_log(request);
        request_free(request);
    }
}

static void end_connection(struct http_connection *http)
{
    if (http->wants_reset) {
        connection_reset(http);
    } else {
        connection_close(http);
    }
}

/* A head that was there in part when the client left or its time was up: it gets a log line. */
static void log_open_head(struct http_connection *http, unsigned status, int error,
                          const char *reason)
{
    const struct head_limits *limits = &http->listen->default_server->head_limits;
    struct request *request = request_new(http->conn, http, &v1_wire);
    struct head head;

    head_parse(conn_input(http->conn), limits, &request->arena, &request->headers, &head);
    head.status = status;
    v1_request_setup(request, &head);
    request->log.action =
        head.is_line_done ? "reading client request headers" : "reading client request line";
    log_info(&request->log, error, "%s", reason);
    request->response.status = status;
    request_log(request);
    request_free(request);
}

/* The last response is out: the connection ends, gently where the client may still be sending. */
static void finish(struct http_connection *http)
{
    if (http->linger_until_ms != 0 && !http->conn->is_input_closed && !http->conn->is_broken) {
        v1_linger(http, http->rest_location);
        return;
    }
    end_connection(http);
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

void v1_settle(struct http_connection *http)
{
    struct conn *conn = http->conn;

    send_and_recycle(http);
    if (http->current == NULL && !http->is_last &&
        (conn->is_readable || (conn->in_end != conn->in_start && !http->was_parsed_partly))) {
        pump(http);
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
            log_open_head(http, 400, 0, "client prematurely closed connection");
        }
        connection_close(http);
    } else if (conn->in_end != conn->in_start) {
        wait_on(http);
    } else {
        rest(http);
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
    if (conn->is_broken || (conn->output_wait.waiter == NULL && conn_peer_is_gone(conn))) {
        http->is_last = true;
        request_cancel(http->current);
    }
}

static void on_input(struct conn *conn)
{
    struct http_connection *http = conn->user;

    if (http->state == V1_PROXY && !read_proxy_header(http)) {
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
    pump(http);
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
    struct log log;

    if (http->current != NULL) {
        return; /* its fiber keeps its own deadlines */
    }
    if (!list_is_empty(&http->unfinished)) {
        struct request *request = container_of(http->unfinished.next, struct request, link);
        request->log.action = "sending to client";
        log_info(&request->log, ETIMEDOUT, "client timed out");
        request->is_timed_out = true;
    } else if (http->was_parsed_partly) {
        log_open_head(http, 408, ETIMEDOUT, "client timed out");
    } else if (http->state != V1_RESTING) {
        connection_log(http, "waiting for request", &log);
        log_info(&log, ETIMEDOUT, "client timed out");
    }
    http->wants_reset = http->state != V1_RESTING && location->reset_timedout_connection;
    conn_fail(conn, ETIMEDOUT);
    recycle_sent(http);
    end_connection(http);
}

static const struct conn_owner v1_owner = {
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
               conn->in_end != conn->in_start;
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
    } else if (!request->keepalive) {
        http->is_last = true;
        if (wants_lingering(request)) {
            http->linger_until_ms = clock_now.now_ms + request->location->lingering_time_ms;
        }
    }
    if (!http->is_pumping) {
        loop_defer(&http->settle);
    }
}

/* ---- lingering ---- */

static void linger_input(struct conn *conn)
{
    struct http_connection *http = conn->user;

    /* At most so much at a time: a client that sends without end is not to keep the worker. */
    for (unsigned reads = 0; reads < 64; reads++) {
        conn->in_start = conn->in_end;
        if (!conn_fill(conn, FIRST_BUFFER, FIRST_BUFFER)) {
            break;
        }
    }
    conn->in_start = conn->in_end;
    if (conn->is_broken || conn->is_input_closed || clock_now.now_ms >= http->linger_until_ms) {
        connection_close(http);
        return;
    }
    conn_input_release(conn);
    uint64_t deadline = clock_now.now_ms + http->rest_location->lingering_timeout_ms;
    conn_set_deadline(conn, deadline < http->linger_until_ms ? deadline : http->linger_until_ms);
    if (!conn_watch(conn)) {
        connection_close(http);
    }
}

static void linger_timeout(struct conn *conn)
{
    connection_close(conn->user);
}

static const struct conn_owner lingering_owner = {
    .input = linger_input,
    .timed_out = linger_timeout,
};

void v1_linger(struct http_connection *http, const struct http_location *location)
{
    http->state = V1_LINGERING;
    http->rest_location = location;
    http->conn->owner = &lingering_owner;
    conn_shutdown_output(http->conn);
    linger_input(http->conn);
}
