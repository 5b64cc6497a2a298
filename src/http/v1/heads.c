/* Request heads of a connection: reads them, starts their requests, refuses what is none. */
#include "base/clock.h"
#include "http/v1/repeat.h"
#include "http/v1/v1.h"
#include "server/generation.h"

/* More bytes into the buffer, which may not move while requests use heads in it. */
static bool fill(struct http_connection *http, uint32_t max)
{
    struct conn *conn = http->conn;
    size_t unread = conn->in_end - conn->in_start;

    if (!list_is_empty(&http->unfinished) && conn->in != NULL &&
        (conn->in_end == conn->in_size || conn->in_start == conn->in_end)) {
        /* The newest request takes it over; reading goes on in a fresh one. */
        request_keep_head(container_of(http->unfinished.prev, struct request, link));
    }
    if (unread > max) {
        return false; /* so many are refused */
    }
    return conn_fill(conn, V1_FIRST_BUFFER, max + V1_FIRST_BUFFER);
}

/* Reads the PROXY protocol's header. False: the connection waits for more of it, or is gone. */
bool v1_read_proxy_header(struct http_connection *http)
{
    struct conn *conn = http->conn;
    struct proxy_header *proxy;
    size_t used;

    conn_fill(conn, V1_FIRST_BUFFER, PROXY_HEADER_MAX + V1_FIRST_BUFFER);
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

/*
 * The block that this connection may repeat. A few for all connections of the worker: what one client
 * sends over and over stays in its place as long as few others share it.
 */
#define REPEATS 16

static struct repeated *repeat_of(const struct conn *conn)
{
    static struct repeated repeats[REPEATS];

    return &repeats[conn->number_low % REPEATS];
}

/* Parses what is there. True: a request was started (or refused), the pump goes on. */
static bool read_head(struct http_connection *http)
{
    struct conn *conn = http->conn;
    const struct head_limits *limits = &http->listen->default_server->head_limits;
    struct request *request = request_new(conn, http, &v1_wire);
    struct head head;
    struct str input = conn_input(conn);
    enum parse_result result =
        head_parse(input, limits, &request->arena, repeat_of(conn), &request->headers, &head);

    if (result == PARSE_MORE) {
        connection_details(http)->scan = head.scan;
        request_free(request);
        return false;
    }
    http->current = request;
    request->is_pipelined = !list_is_empty(&http->unfinished);
    counters_mine->writing += list_is_empty(&http->unfinished);
    list_push_back(&http->unfinished, &request->link);
    http->unfinished_count++;
    if (result == PARSE_BAD) {
        conn->in_start = conn->in_end;
        refuse(http, request, &head);
        return true;
    }
    conn_consume(conn, head.end);
    start(http, request, &head);
    return true;
}

/* How far requests are answered ahead of a client that does not read: bytes and responses, each of
 * which holds its request's memory. */
#define PIPELINE_BYTES (256 * 1024)
#define PIPELINE_REQUESTS 64

/* Reads and starts requests while there is input and nothing to wait for. */
void v1_pump(struct http_connection *http)
{
    struct conn *conn = http->conn;
    const struct head_limits *limits = &http->listen->default_server->head_limits;

    http->is_pumping = true;
    while (http->current == NULL && !http->is_last && conn_unsent(conn) < PIPELINE_BYTES &&
           http->unfinished_count < PIPELINE_REQUESTS) {
        bool is_new = conn->in_end != conn->in_start && !http->was_parsed_partly;

        if (!is_new) {
            if (!conn->is_readable || !fill(http, limits->head_max)) {
                break;
            }
            if (http->was_parsed_partly &&
                !head_wants_parsing(&http->details->scan, conn_input(conn), limits)) {
                continue;
            }
        }
        set_reading(http, !read_head(http));
    }
    http->is_pumping = false;
}

/* A head that was there in part when the client left or its time was up: it gets a log line. */
void v1_log_open_head(struct http_connection *http, unsigned status, int error, const char *reason)
{
    const struct head_limits *limits = &http->listen->default_server->head_limits;
    struct request *request = request_new(http->conn, http, &v1_wire);
    struct head head;

    head_parse(conn_input(http->conn), limits, &request->arena, NULL, &request->headers, &head);
    head.status = status;
    v1_request_setup(request, &head);
    request->log.action =
        head.is_line_done ? "reading client request headers" : "reading client request line";
    log_info(&request->log, error, "%s", reason);
    request->response.status = status;
    request_log(request);
    request_free(request);
}
