/* Request heads of a connection: reads them, starts their requests, refuses what is none. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/message/repeat.h"
#include "http/request/engine.h"
#include "http/v1/v1.h"
#include "server/generation.h"

/*
 * How large a fresh buffer is: small where what clients send is small, since a request keeps the
 * one that its head lies in for as long as it waits. A read that fills a small one makes those
 * after it large, until so many reads in a row would have fitted.
 */
#define SMALL_BUFFER 512
#define LARGE_READS 64

static unsigned large_reads_left;

/* More bytes into the buffer, which may not move while requests use heads in it. */
static bool fill(struct v1_connection *c, uint32_t max)
{
    struct conn *conn = c->conn;
    size_t unread = conn_input_len(conn);

    if (!list_is_empty(&c->unfinished) && conn->in != NULL &&
        (conn->in_end == conn->in_size || conn->in_start == conn->in_end)) {
        /* The newest request takes it over; reading continues in a fresh one. */
        request_keep_head(container_of(c->unfinished.prev, struct request, node));
    }
    if (unread > max) {
        return false; /* so many are refused */
    }
    size_t first = large_reads_left == 0 ? SMALL_BUFFER : CONNECTION_FIRST_BUFFER;
    if (!conn_fill(conn, first, max + CONNECTION_FIRST_BUFFER)) {
        return false;
    }
    if (conn->in_end == conn->in_size || conn_input_len(conn) - unread >= SMALL_BUFFER) {
        large_reads_left = LARGE_READS;
    } else if (large_reads_left != 0) {
        large_reads_left--;
    }
    return true;
}

/* A head is there in part: the connection counts as being read. */
static void keep_open_head(struct v1_connection *c, const struct head_scan *scan)
{
    if (c->open_head == NULL) {
        c->open_head = malloc(sizeof(*c->open_head));
        if (c->open_head == NULL) {
            fatal_no_memory(sizeof(*c->open_head));
        }
        counters_mine->reading++;
    }
    *c->open_head = *scan;
}

void v1_forget_open_head(struct v1_connection *c)
{
    if (c->open_head != NULL) {
        free(c->open_head);
        c->open_head = NULL;
        counters_mine->reading--;
    }
}

/* A request that gets its answer without being looked at; nothing after it is read as a request. */
static void start_last(struct v1_connection *c, struct request *request, unsigned status)
{
    c->connection->is_last = true;
    request->keepalive = false;
    request->is_lingering_forced = true;
    request->incoming.is_read = true;
    request->response.status = status;
    request_start(request);
}

/* A request whose head cannot be taken: answered with the status, and the last one. */
static void head_refuse(struct v1_connection *c, struct request *request, const struct head *head)
{
    const char *stage =
        head->is_line_done ? "reading client request headers" : "reading client request line";
    v1_request_setup(request, head);
    request->log.action = stage;
    if (head->has_bad_byte) {
        struct str culprit = str_head(head->culprit, 1024);
        log_info(&request->log, 0, "%s: \"%.*s\\x%02x...\"", head->reason, STR_ARG(culprit),
                 head->bad_byte);
    } else if (head->culprit.len != 0) {
        struct str culprit = str_head(head->culprit, 1024);
        log_info(&request->log, 0, "%s: \"%.*s\"", head->reason, STR_ARG(culprit));
    } else {
        log_info(&request->log, 0, "%s", head->reason);
    }
    if (head->status == 414 || head->status == 494) {
        counters_mine->limited++;
    }
    start_last(c, request, head->status);
}

/*
 * Blocks that connections may repeat. A few for all connections of the worker: what one client
 * sends over and over stays in its place as long as few others share it.
 */
#define REPEATS 16

/* Parses what is there: a request is started, or refused, or the rest of the head is awaited. */
static void v1_heads_read_head(struct v1_connection *c)
{
    static struct repeated repeats[REPEATS];
    struct conn *conn = c->conn;
    struct request *request = request_new(c->connection, &v1_wire);
    const struct field_reading reading = {
        .limits = &connection_server(c->connection)->head_limits,
        .arena = &request->arena,
        .fields = &request->headers,
        .repeat = &repeats[conn->number_low % REPEATS],
    };
    struct head head;
    enum parse_result result = head_parse(conn_input(conn), &reading, &head);

    if (result == PARSE_MORE) {
        keep_open_head(c, &head.scan);
        request_free(request);
        return;
    }
    v1_forget_open_head(c);
    c->current = request;
    request->is_pipelined = !list_is_empty(&c->unfinished);
    counters_mine->writing += list_is_empty(&c->unfinished);
    list_push_back(&c->unfinished, &request->node);
    c->unfinished_count++;
    request->ordinal = ++c->connection->requests;
    if (result == PARSE_BAD) {
        conn->in_start = conn->in_end;
        head_refuse(c, request, &head);
        return;
    }
    conn_consume(conn, head.end);
    request->log.action = "reading client request headers";
    unsigned status = v1_request_setup(request, &head);
    for (unsigned i = 0; i < head.dropped && i < DROPPED_LINES_MAX; i++) {
        log_info(&request->log, 0, "client sent invalid header line: \"%.*s\"",
                 STR_ARG(head.dropped_lines[i]));
    }
    request->log.action = NULL;
    if (status != 0) {
        start_last(c, request, status);
    } else {
        request_start(request);
    }
}

/* How far requests are answered ahead of a client that does not read: bytes and responses, each of
 * which holds its request's memory. */
#define PIPELINE_BYTES (256 * 1024)
#define PIPELINE_REQUESTS 64

/* Reads and starts requests while there is input and nothing to wait for. */
void v1_pump(struct v1_connection *c)
{
    struct conn *conn = c->conn;
    const struct head_limits *limits = &connection_server(c->connection)->head_limits;

    c->is_pumping = true;
    while (c->current == NULL && !c->connection->is_last && conn_unsent(conn) < PIPELINE_BYTES &&
           c->unfinished_count < PIPELINE_REQUESTS && !c->logs_first) {
        bool is_new = conn->in_end != conn->in_start && c->open_head == NULL;

        if (!is_new) {
            if (!conn->is_readable || !fill(c, limits->head_max)) {
                break;
            }
            if (c->open_head != NULL &&
                !head_wants_parsing(c->open_head, conn_input(conn), limits)) {
                continue;
            }
        }
        v1_heads_read_head(c);
    }
    c->is_pumping = false;
}

/* A head that was there in part when the client left or its time was up: it gets a log line. */
void v1_log_open_head(struct v1_connection *c, unsigned status, int error, const char *reason)
{
    struct request *request = request_new(c->connection, &v1_wire);
    const struct field_reading reading = {
        .limits = &connection_server(c->connection)->head_limits,
        .arena = &request->arena,
        .fields = &request->headers,
    };
    struct head head;

    request->ordinal = c->connection->requests + 1;
    head_parse(conn_input(c->conn), &reading, &head);
    head.status = status;
    v1_request_setup(request, &head);
    request->log.action =
        head.is_line_done ? "reading client request headers" : "reading client request line";
    log_info(&request->log, error, "%s", reason);
    request->response.status = status;
    request_log(request);
    request_free(request);
}
