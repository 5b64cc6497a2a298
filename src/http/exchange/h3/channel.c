/* The channel of HTTP/3: a request's share of a connection; and what is read of its response. */
#include "base/clock.h"
#include "http/exchange/h3/h3.h"

#define READING_SIZE (64 * 1024) /* bytes of a body that are read at a time */

/* ---- the way in ---- */

static void drop_body(struct coded_stream *stream)
{
    h3_stream_drop_body(container_of(stream, struct h3_stream, coded));
}

static bool h3_begin(struct exchange *x)
{
    struct h3_stream *stream = h3_stream_of(x);
    struct h3_connection *c = h3_connection_of(x->connection);

    if (c == NULL) {
        c = h3_connection_new(x);
    }
    *stream = (struct h3_stream){.coded = coded_stream_begin(x, drop_body)};
    list_init(&stream->link);
    c->is_alone |= stream->coded.sent_request.is_alone;
    return h3_connection_enter(c, stream);
}

/* Frames are taken apart before the exchange sees anything: there are no bytes to look at. */
static struct str h3_no_input(struct exchange *x)
{
    return STR_NONE;
}

static void h3_consume_nothing(struct exchange *x, size_t n)
{
}

static bool h3_has_ended(struct exchange *x)
{
    const struct h3_stream *stream = h3_stream_of(x);

    return stream->coded.is_bad || stream->coded.is_refused || stream->coded.is_input_ended ||
           !h3_connection_is_sound(stream->connection);
}

/* ---- waits and times ---- */

static enum wait_result h3_wait(struct exchange *x, uint64_t deadline_ms)
{
    return fiber_wait(&h3_stream_of(x)->coded.wake, deadline_ms);
}

static uint64_t h3_unsent(struct exchange *x)
{
    return h3_stream_unsent(h3_stream_of(x));
}

static uint64_t h3_sent(const struct exchange *x)
{
    const struct h3_stream *stream = h3_stream_of(x);

    return stream->written - (stream->quic == NULL ? 0 : quic_stream_unsent(stream->quic));
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t h3_moved_ms(const struct exchange *x)
{
    const struct h3_stream *stream = h3_stream_of(x);

    return stream->quic == NULL ? 0 : stream->quic->moved_ms;
}

/* The backend opened a window, pinged, or sent a frame of the connection. An acknowledgement does
 * not count: of our PING each backend's system sends one. */
static uint64_t h3_heard_ms(const struct exchange *x)
{
    const struct h3_stream *stream = h3_stream_of(x);
    const struct h3_connection *c = stream->connection;

    return stream->quic == NULL
               ? 0
               : later(later(stream->quic->heard_ms, c->heard_ms), quic_heard_ms(c->quic));
}

static enum wait_result h3_wait_room(struct exchange *x, uint64_t timeout_ms)
{
    struct h3_stream *stream = h3_stream_of(x);
    uint64_t since_ms = clock_now.now_ms;

    while (!stream->coded.is_output_ended && h3_connection_is_sound(stream->connection) &&
           h3_stream_is_full(stream)) {
        quic_stream_want_writable(stream->quic, H3_UNSENT_MAX);
        enum wait_result result = fiber_wait(&stream->coded.room, since_ms + timeout_ms);
        uint64_t alive_ms = later(h3_moved_ms(x), h3_heard_ms(x));
        if (result == WAIT_TIMED_OUT && alive_ms > since_ms) {
            since_ms = alive_ms;
        } else if (result != WAIT_READY) {
            return result;
        }
    }
    return WAIT_READY;
}

static void h3_nudge(struct exchange *x)
{
    wait_signal(&h3_stream_of(x)->coded.wake);
}

/* ---- the way out ---- */

static void free_bodies(struct h3_stream *stream)
{
    if (stream->reading != NULL) {
        conn_buffer_free(stream->reading, READING_SIZE);
        stream->reading = NULL;
    }
    buf_free(&stream->rest);
    stream->rest_read = 0;
    stream->bytes = STR_NONE;
}

static void h3_end(struct exchange *x, bool is_reusable)
{
    struct upstream_connection *upstream = x->connection;
    struct h3_stream *stream = h3_stream_of(x);
    struct h3_connection *c = stream->connection;

    (void) is_reusable; /* of the stream; the connection is another matter */
    x->connection = NULL;
    free_bodies(stream);
    if (c == NULL) {
        upstream_connection_close(upstream);
        return;
    }
    h3_connection_leave(c, stream);
    stream->connection = NULL;
    /* As with nginx, an address that no group names has no idle connection. */
    if (!h3_connection_is_sound(c) || c->goaway_id != UINT64_MAX || c->is_alone ||
        (upstream->users == 1 && upstream->group->is_implicit)) {
        upstream_connection_close(upstream);
        return;
    }
    upstream_connection_keep(upstream);
}

static uint64_t h3_body_received(struct exchange *x)
{
    const struct h3_stream *stream = h3_stream_of(x);

    return x->attempt->bytes_received - stream->coded.response.head_received;
}

const struct channel h3_channel = {
    .begin = h3_begin,
    .input = h3_no_input,
    .consume = h3_consume_nothing,
    .fill = coded_stream_fill,
    .has_ended = h3_has_ended,
    .wait = h3_wait,
    .unsent = h3_unsent,
    .sent = h3_sent,
    .wait_room = h3_wait_room,
    .nudge = h3_nudge,
    .moved_ms = h3_moved_ms,
    .heard_ms = h3_heard_ms,
    .body_received = h3_body_received,
    .end = h3_end,
};

/* ---- responses ---- */

/* HTTP/0.9 has no head: one is made up when the first byte comes, or the end. */
static enum head_result hq_read_head(struct exchange *x, struct h3_stream *stream)
{
    bool has_bytes =
        stream->rest.len != 0 || (stream->quic != NULL && quic_stream_input(stream->quic).len != 0);

    if (!has_bytes && !stream->coded.is_input_ended) {
        return HEAD_MORE;
    }
    x->response.status = 200;
    x->response.version = HTTP_3;
    return HEAD_DONE;
}

enum head_result h3_read_head(struct exchange *x)
{
    struct h3_stream *stream = h3_stream_of(x);

    if (stream->coded.is_bad) {
        return HEAD_BAD;
    }
    return h3_is_hq(x) ? hq_read_head(x, stream)
                       : coded_response_head(x, &stream->coded.response,
                                             stream->coded.is_input_ended, HTTP_3);
}

/* The bytes that come next, until the exchange asks again; empty: none are there. */
static struct str next_bytes(struct h3_stream *stream)
{
    if (stream->quic == NULL) {
        if (stream->rest_read == stream->rest.len) {
            return STR_NONE;
        }
        stream->rest_read = stream->rest.len;
        return buf_str(&stream->rest);
    }
    if (stream->reading == NULL) {
        stream->reading = conn_buffer_alloc(READING_SIZE);
    }
    return (struct str){stream->reading, h3_stream_take(stream, stream->reading, READING_SIZE)};
}

enum body_result h3_read_body(struct exchange *x, struct str *data)
{
    struct h3_stream *stream = h3_stream_of(x);

    for (;;) {
        if (stream->coded.is_bad) {
            return BODY_BAD;
        }
        *data = next_bytes(stream);
        if (data->len != 0 && !x->response.has_no_body) {
            return coded_response_data(x, &stream->coded.response, data->len);
        }
        if (data->len == 0) {
            break;
        }
    }
    if (stream->coded.is_bad) {
        return BODY_BAD;
    }
    return stream->coded.is_input_ended ? coded_response_finish(x, &stream->coded.response)
                                        : BODY_MORE;
}

enum body_result h3_body_ended(struct exchange *x)
{
    const struct conn *conn = x->connection->conn;

    if (h3_stream_of(x)->coded.is_bad) {
        return BODY_BAD;
    }
    exchange_log(x, LOG_ERROR, conn->is_broken ? conn->error : 0,
                 conn->is_broken ? "recv() failed" : "upstream prematurely closed connection");
    return BODY_BAD;
}
