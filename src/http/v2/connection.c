/* The life of a client's HTTP/2 connection: its beginning, its rest and its end. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/request/pace.h"
#include "http/routing/body_settings.h"
#include "http/routing/connection_settings.h"
#include "http/v2/v2.h"
#include "server/generation.h"

#define ACTION "processing HTTP/2 connection"
/* Bytes of DATA that a client sends of a frame before its time begins again. */
#define PART_PROGRESS_MIN 1024

/* A client's connection that speaks HTTP/2, as its owners know it. */
static struct v2_connection *state_of(const struct http_connection *connection)
{
    struct v2_connection *c = connection->wire_state;

    CHECK_MAGIC(c, V2_CONNECTION_MAGIC);
    return c;
}

/* ---- the end ---- */

/* What is left is the connection of any protocol: its closing, or its lingering end. */
static void connection_ended(struct http_connection *connection)
{
    struct v2_connection *c = state_of(connection);

    c->conn->is_input_paused = 0;
    timer_remove(&c->drain_timer);
    counters_mine->writing -= c->is_writing;
    hpack_table_free(&c->decoder);
    hpack_table_free(&c->encoder);
    free(c->header_block.bytes);
    free(c->streams);
    c->magic = 0;
    free(c);
}

/* Everything was sent: the connection ends, with a lingering close where the client may still be
 * sending. */
static void connection_finish(struct v2_connection *c)
{
    struct http_connection *connection = c->connection;
    const struct http_location *location = connection->last_location;
    bool is_over = connection->conn->is_input_closed || connection->conn->is_broken ||
                   location->connections->lingering_close == LINGERING_OFF;

    if (is_over) {
        connection_end(connection);
        return;
    }
    connection->linger_until_ms = clock_now.now_ms + location->connections->lingering_time_ms;
    connection_linger(connection);
}

/* ---- settling ---- */

/* How long a frame, or a header block, may take to become whole; DATA to go on. */
static uint64_t part_timeout(const struct v2_connection *c)
{
    return c->part.is_open ? c->connection->last_location->bodies->client_body_timeout_ms
                           : connection_server(c->connection)->client_header_timeout_ms;
}

/* What the connection waits for next, and how long. */
static void wait_on(struct v2_connection *c)
{
    struct conn *conn = c->conn;
    struct http_connection *connection = c->connection;
    const struct http_location *location = connection->last_location;
    bool is_idle = c->stream_count == 0 && c->drain_count == 0 && list_is_empty(&c->finished);
    bool has_part = !c->is_held && (c->header_block.stream != 0 || c->part.is_open ||
                                    !c->has_preface || conn->in_end != conn->in_start);
    uint64_t now_ms = clock_now.now_ms;
    uint64_t deadline = NO_DEADLINE;

    if (conn_unsent(conn) == 0 || conn->sent != c->drained_to) {
        c->drained_to = conn->sent;
        c->drained_ms = now_ms;
    }
    if (has_part != c->deadline.was_partly || c->deadline.part_number != c->deadline.frames ||
        c->deadline.data_taken - c->deadline.part_taken >= PART_PROGRESS_MIN) {
        c->deadline.was_partly = has_part;
        c->deadline.part_number = c->deadline.frames;
        c->deadline.part_taken = c->deadline.data_taken;
        c->deadline.ends_ms = now_ms + part_timeout(c);
        c->deadline.is_late = false;
    }
    if (has_part) {
        deadline = c->deadline.ends_ms;
    } else if (is_idle) {
        /* Before its first request a client has the time of a head, as with HTTP/1. */
        deadline = now_ms + (c->connection->requests == 0
                                 ? connection_server(c->connection)->client_header_timeout_ms
                                 : location->connections->keepalive_timeout_ms);
    }
    c->deadline.was_unsent = conn_unsent(conn) != 0;
    if (c->deadline.was_unsent &&
        c->drained_ms + location->connections->send_timeout_ms < deadline) {
        deadline = c->drained_ms + location->connections->send_timeout_ms;
    }
    if (c->deadline.was_unsent && !list_is_empty(&c->finished)) {
        struct request *request = container_of(c->finished.next, struct request, node);
        deadline = pace_send_begins(request, conn->sent, deadline);
    }
    conn_set_deadline(conn, deadline);
    if (is_idle && conn_unsent(conn) == 0 ? !conn_park(conn) : !conn_watch(conn)) {
        conn_fail(conn, errno);
        v2_settle_later(c);
    }
}

/* Sends, and gives turns as long as that brings more. */
static void send_and_serve(struct v2_connection *c)
{
    for (unsigned rounds = 0; rounds < 4; rounds++) {
        conn_flush(c->conn);
        v2_run_woken(c);
        if (c->scheduler.waiting_count == 0 || (!v2_has_room(c) && !c->conn->is_broken)) {
            break;
        }
        v2_serve(c);
    }
    if (conn_unsent(c->conn) != 0) {
        conn_flush(c->conn);
    }
    v2_recycle(c);
}

void v2_settle(struct v2_connection *c)
{
    struct conn *conn = c->conn;

    if (c->is_held) {
        v2_pump(c);
    }
    c->is_pumping = true;
    if (c->phase == V2_DRAINING || (worker_is_quitting && c->phase == V2_OPEN)) {
        v2_go_away(c, V2_NO_ERROR);
    }
    send_and_serve(c);
    c->is_pumping = false;
    loop_undefer(&c->connection->settle);
    if (conn->is_broken || conn->is_input_closed) {
        v2_cancel_all(c);
        c->connection->is_last = true;
    }
    if (conn->is_broken ? c->stream_count == 0
                        : c->stream_count == 0 && list_is_empty(&c->finished) &&
                              c->connection->is_last && conn_unsent(conn) == 0) {
        v2_recycle(c);
        connection_finish(c);
        return;
    }
    if (conn->is_broken) {
        return; /* the last of its requests leads here again */
    }
    if ((c->scheduler.waiting_count != 0 && v2_has_room(c)) ||
        (c->is_held && conn_unsent(conn) == 0)) {
        loop_defer_next(&c->connection->settle); /* others first */
    }
    wait_on(c);
}

static void on_input(struct conn *conn)
{
    struct http_connection *connection = conn->user;
    struct v2_connection *c = state_of(connection);

    if (c->phase < V2_FAILED) {
        v2_pump(c);
    } else {
        /* What still comes is not looked at. */
        conn->in_start = conn->in_end;
        while (conn_fill(conn, V2_INPUT_FIRST, V2_INPUT_FIRST)) {
            conn->in_start = conn->in_end;
        }
    }
    v2_settle(c);
}

static void on_drained(struct conn *conn)
{
    struct http_connection *connection = conn->user;

    v2_settle(state_of(connection));
}

/* After its stream was abandoned, what is left of a frame has this time, or as long as it had at
 * first. */
#define PART_GRACE_MS 5000

/*
 * A frame, or a header block, is not whole in time. The stream that it would begin is lost; the
 * connection is only when the frame continues to hold up all others.
 */
static void give_up_part(struct v2_connection *c)
{
    uint64_t timeout_ms = part_timeout(c);
    uint32_t id = c->header_block.stream;
    struct str input = conn_input(c->conn);
    struct log log;

    if (id == 0 && !c->part.is_open && input.len >= FRAME_HEAD_SIZE) {
        struct frame_head head = frame_read(input.data);
        id = head.type == FRAME_HEADERS && head.stream > c->last_stream ? head.stream : 0;
    }
    connection_log(c->connection,
                   c->part.is_open ? "reading client request body"
                                   : "reading client request headers",
                   &log);
    log_info(&log, ETIMEDOUT, "client timed out");
    if (id != 0) {
        v2_put_reset(c, id, V2_PROTOCOL_ERROR);
        c->deadline.late_stream = id;
    }
    c->deadline.is_late = true;
    c->deadline.ends_ms =
        clock_now.now_ms + (timeout_ms < PART_GRACE_MS ? PART_GRACE_MS : timeout_ms);
}

/* Has the client taken nothing for too long? What was queued in this very turn, as by a stream
 * whose time is up, does not count. */
static bool is_stalled(const struct v2_connection *c)
{
    return c->deadline.was_unsent && conn_unsent(c->conn) != 0 &&
           clock_now.now_ms >=
               c->drained_ms + c->connection->last_location->connections->send_timeout_ms;
}

/* Does the socket take the last bytes of finished responses too slowly? */
static bool finished_is_slow(struct v2_connection *c)
{
    return !list_is_empty(&c->finished) &&
           !pace_send_ended(container_of(c->finished.next, struct request, node), c->conn->sent);
}

static void on_timeout(struct conn *conn)
{
    struct http_connection *connection = conn->user;
    struct v2_connection *c = state_of(connection);
    struct log log;

    connection_log(connection, ACTION, &log);
    if (finished_is_slow(c)) {
        connection->wants_reset = connection->last_location->connections->reset_timedout_connection;
        conn_fail(conn, ETIMEDOUT);
        v2_settle(c);
        return;
    }
    if (conn_unsent(conn) != 0 && conn->sent != c->drained_to) {
        v2_settle(c); /* the client takes what there is, slowly */
        return;
    }
    if (is_stalled(c)) {
        log_info(&log, ETIMEDOUT, "client timed out");
        connection->wants_reset = connection->last_location->connections->reset_timedout_connection;
        conn_fail(conn, ETIMEDOUT);
    } else if (c->deadline.was_partly && c->has_preface && !c->deadline.is_late) {
        give_up_part(c);
    } else if (c->deadline.was_partly && c->has_preface) {
        v2_guard_failed(c, "seconds for a frame");
    } else {
        if (c->deadline.was_partly) {
            log_info(&log, ETIMEDOUT, "client timed out");
        }
        v2_go_away(c, V2_NO_ERROR);
        conn_flush(conn);
        conn->is_input_closed = 1; /* idle: nothing is on its way that has to be read */
    }
    v2_settle(c);
}

/* ---- the beginning ---- */

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL) {
        fatal_no_memory(count * size);
    }
    return memory;
}

static void connection_begin(struct http_connection *connection)
{
    const struct http_server *server = connection_server(connection);
    struct v2_connection *c = allocate(1, sizeof(*c));

    c->connection = connection;
    counters_mine->h2_connections++;
    c->conn = connection->conn;
    c->settings = server_settings(server, &v2_server_key);
    c->bucket_mask = (uint32_t) c->settings->index_size - 1;
    c->streams = allocate((size_t) c->settings->index_size, sizeof(*c->streams));
    c->send_window = c->peer_window = WINDOW_DEFAULT;
    c->recv_window = WINDOW_MAX;
    c->peer_frame_max = FRAME_SIZE_DEFAULT;
    hpack_table_init(&c->decoder, HPACK_TABLE_DEFAULT);
    hpack_table_init(&c->encoder, HPACK_TABLE_DEFAULT);
    v2_drains_init(c);
    list_init(&c->finished);
    list_init(&c->woken);
    for (unsigned urgency = 0; urgency < URGENCIES; urgency++) {
        list_init(&c->scheduler.waiting[urgency]);
    }
    c->magic = V2_CONNECTION_MAGIC;
    connection->wire_state = c;
    connection->last_location = server->root;
    c->drained_ms = clock_now.now_ms;
    conn_set_nodelay(connection->conn, true);
    c->is_pumping = true;
    v2_put_settings(c);
    v2_put_window(c, 0, WINDOW_MAX - WINDOW_DEFAULT);
}

/* ---- what the connection asks for ---- */

/* Worker hook: no further streams. */
static void connection_quit(struct http_connection *connection)
{
    struct v2_connection *c = state_of(connection);

    v2_go_away(c, V2_NO_ERROR);
}

static void abort_connection(struct http_connection *connection)
{
    struct v2_connection *c = state_of(connection);

    conn_fail(connection->conn, ECANCELED);
    v2_cancel_all(c);
    loop_defer(&connection->settle);
}

static void settle_connection(struct http_connection *connection)
{
    v2_settle(state_of(connection));
}

const struct http_protocol v2_protocol = {
    .alpn = STR_INIT("\x02h2"),
    .preface = STR_INIT(V2_PREFACE),
    .parameter = "http2",
    .has_directive = true,
    .action = ACTION,
    .off = "client sent a request to a server where HTTP/2 is off",
    .owner = {.input = on_input, .drained = on_drained, .timed_out = on_timeout},
    .is_on = v2_is_on,
    .begin = connection_begin,
    .end = connection_ended,
    .settle = settle_connection,
    .quit = connection_quit,
    .abort = abort_connection,
};
