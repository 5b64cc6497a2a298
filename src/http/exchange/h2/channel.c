/* The channel of HTTP/2: a request's share of a connection. */
#include <errno.h>

#include "base/clock.h"
#include "http/exchange/h2/h2.h"

static void drop_body(struct coded_stream *stream)
{
    h2_stream_drop_body(container_of(stream, struct h2_stream, coded));
}

static bool h2_begin(struct exchange *x)
{
    struct h2_stream *stream = h2_stream_of(x);
    struct h2_connection *connection = h2_connection_of(x->connection);

    if (connection == NULL) {
        connection = h2_connection_new(x->connection);
    }
    *stream = (struct h2_stream){.coded = coded_stream_begin(x, drop_body), .fd = -1};
    list_init(&stream->in_senders);
    connection->is_alone |= stream->coded.sent_request.is_alone;
    return h2_connection_enter(connection, stream);
}

/* Frames are taken apart before the exchange sees anything: there are no bytes to look at. */
static struct str h2_input(struct exchange *x)
{
    return STR_NONE;
}

static void h2_consume(struct exchange *x, size_t n)
{
}

static bool h2_has_ended(struct exchange *x)
{
    const struct h2_stream *stream = h2_stream_of(x);

    return stream->coded.is_bad || stream->coded.is_refused || stream->coded.is_input_ended ||
           !h2_connection_is_sound(stream->connection);
}

static enum wait_result h2_wait(struct exchange *x, uint64_t deadline_ms)
{
    struct conn *conn = x->connection->conn;

    if (!conn->source.is_registered && !conn_watch(conn)) {
        conn_fail(conn, errno);
        return WAIT_READY;
    }
    return fiber_wait(&h2_stream_of(x)->coded.wake, deadline_ms);
}

static uint64_t h2_unsent(struct exchange *x)
{
    const struct h2_stream *stream = h2_stream_of(x);

    return h2_stream_pending(stream) + output_share_unsent(&stream->framed, x->connection->conn);
}

static uint64_t h2_sent(const struct exchange *x)
{
    const struct h2_stream *stream = h2_stream_of(x);

    return stream->framed.queued - output_share_unsent(&stream->framed, x->connection->conn);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t h2_moved_ms(const struct exchange *x)
{
    return later(h2_stream_of(x)->moved_ms, x->connection->conn->moved_ms);
}

static uint64_t h2_heard_ms(const struct exchange *x)
{
    const struct h2_stream *stream = h2_stream_of(x);

    return later(stream->heard_ms, stream->connection->heard_ms);
}

/*
 * When the peer took something of the stream's body, or, where all of that is on its way, of the
 * connection's output; or showed itself: who opens its window later is alive.
 */
static uint64_t alive_ms(const struct exchange *x)
{
    const struct h2_stream *stream = h2_stream_of(x);
    uint64_t moved_ms =
        h2_stream_pending(stream) != 0 ? stream->moved_ms : x->connection->conn->moved_ms;

    return later(moved_ms, h2_heard_ms(x));
}

static enum wait_result h2_wait_room(struct exchange *x, uint64_t timeout_ms)
{
    struct h2_stream *stream = h2_stream_of(x);
    struct conn *conn = x->connection->conn;
    uint64_t since_ms = clock_now.now_ms;

    conn_flush_later(conn);
    while (!stream->coded.is_output_ended && h2_connection_is_sound(stream->connection) &&
           (h2_stream_pending(stream) != 0 || !h2_connection_has_room(stream->connection))) {
        enum wait_result result = fiber_wait(&stream->coded.room, since_ms + timeout_ms);
        if (result == WAIT_TIMED_OUT && alive_ms(x) > since_ms) {
            since_ms = alive_ms(x);
        } else if (result != WAIT_READY) {
            return result;
        }
    }
    return WAIT_READY;
}

static void h2_nudge(struct exchange *x)
{
    wait_signal(&h2_stream_of(x)->coded.wake);
}

static void free_bodies(struct h2_stream *stream)
{
    h2_bytes_free(&stream->reading);
    h2_bytes_free(&stream->arriving);
    buf_free(&stream->kept);
    stream->bytes = STR_NONE;
    stream->file_left = 0;
}

static uint64_t h2_body_received(struct exchange *x)
{
    struct h2_stream *stream = h2_stream_of(x);

    if (stream->connection != NULL) {
        h2_count_own(stream->connection, x);
    }
    return x->attempt->bytes_received - stream->coded.response.head_received;
}

static void h2_end(struct exchange *x, bool is_reusable)
{
    struct upstream_connection *upstream = x->connection;
    struct h2_stream *stream = h2_stream_of(x);
    struct h2_connection *connection = stream->connection;

    (void) is_reusable; /* of the stream; the connection is another matter */
    x->connection = NULL;
    stream->connection = NULL;
    free_bodies(stream);
    if (connection == NULL) {
        upstream_connection_close(upstream);
        return;
    }
    if (stream->coded.response
            .has_final) { /* else the attempt may be repeated because nothing came */
        h2_count_own(connection, x);
    }
    bool is_whole = stream->coded.is_input_ended && stream->coded.is_output_ended;
    if (!is_whole && !stream->is_closed && !stream->coded.is_refused &&
        h2_connection_is_sound(connection)) {
        h2_put_number(connection, FRAME_RST_STREAM, stream->id,
                      stream->coded.is_input_ended && !stream->coded.is_bad ? V2_NO_ERROR
                                                                            : V2_CANCEL);
    }
    h2_connection_leave(connection, stream);
    if (!h2_connection_is_sound(connection) || connection->goaway_id != UINT32_MAX ||
        connection->is_alone) {
        if (upstream->users == 1 && !upstream->conn->is_broken) {
            conn_flush(upstream->conn);
        }
        upstream_connection_close(upstream);
        return;
    }
    if (upstream->users == 1 && upstream->group->is_implicit) {
        /* As with nginx, who names an address alone has no idle connection. */
        upstream_connection_close(upstream);
        return;
    }
    if (upstream->users == 1 && conn_unsent(upstream->conn) != 0) {
        conn_flush(upstream->conn); /* only then may it rest */
    }
    upstream_connection_keep(upstream);
}

const struct channel h2_channel = {
    .begin = h2_begin,
    .input = h2_input,
    .consume = h2_consume,
    .fill = coded_stream_fill,
    .has_ended = h2_has_ended,
    .wait = h2_wait,
    .unsent = h2_unsent,
    .sent = h2_sent,
    .wait_room = h2_wait_room,
    .nudge = h2_nudge,
    .moved_ms = h2_moved_ms,
    .heard_ms = h2_heard_ms,
    .body_received = h2_body_received,
    .end = h2_end,
};
