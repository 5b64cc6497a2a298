/* Frames that backends send: what the connection makes of them (RFC 9113, 5 and 6). */
#include "base/clock.h"
#include "http/exchange/h2/h2.h"
#include "upstream/peer.h"

#define STRAYS_MAX 10000       /* frames in a row for streams that are gone */
#define CONTINUATIONS_MAX 1000 /* of one header block */

/* The stream of a frame, or NULL: it is gone, or the connection has failed. */
static struct h2_stream *stream_of_frame(struct h2_connection *connection,
                                         const struct frame_head *head)
{
    struct h2_stream *stream = h2_stream_find(connection, head->stream);

    if (stream != NULL) {
        return stream;
    }
    if (head->stream >= connection->next_id || (head->stream & 1) == 0) {
        h2_connection_fail(connection, V2_PROTOCOL_ERROR,
                           "upstream sent frame for unknown stream %u", head->stream);
    } else if (++connection->strays > STRAYS_MAX) {
        h2_connection_fail(connection, V2_ENHANCE_YOUR_CALM,
                           "upstream sent too many frames for closed streams");
    }
    return NULL;
}

static bool refuse_ended(struct h2_stream *stream)
{
    if (stream->coded.is_input_ended) {
        coded_stream_fail(&stream->coded, "upstream sent frame for closed stream %u", stream->id);
    }
    return stream->coded.is_input_ended;
}

static bool refuse_padding(struct h2_connection *connection, const struct frame_head *head,
                           struct str *payload)
{
    unsigned padding = payload->len == 0 ? 0 : (unsigned char) payload->data[0];

    if (frame_unpad(head, payload, NULL)) {
        return false;
    }
    h2_connection_fail(connection, V2_PROTOCOL_ERROR,
                       "upstream sent http2 frame with too long padding: %u in frame %u", padding,
                       head->length);
    return true;
}

/* ---- DATA ---- */

static void take_data(struct h2_connection *connection, const struct frame_head *head,
                      struct str payload)
{
    struct h2_stream *stream = stream_of_frame(connection, head);

    if (connection->is_bad || refuse_padding(connection, head, &payload)) {
        return;
    }
    connection->recv_window -= head->length;
    if (connection->recv_window < WINDOW_MAX / 2) {
        uint32_t more = (uint32_t) (WINDOW_MAX - connection->recv_window);
        connection->recv_window += more;
        h2_put_number(connection, FRAME_WINDOW_UPDATE, 0, more);
    }
    if (stream == NULL || refuse_ended(stream)) {
        return;
    }
    stream->coded.x->attempt->bytes_received += FRAME_HEAD_SIZE + head->length;
    stream->coded.has_heard = true;
    if (!stream->coded.response.has_final) {
        coded_stream_fail(&stream->coded, "upstream sent unexpected http2 frame: %u", head->type);
        return;
    }
    stream->recv_window -= head->length;
    if (stream->recv_window < 0) {
        coded_stream_fail(&stream->coded, "upstream violated stream flow control");
        return;
    }
    stream->taken += head->length - (uint32_t) payload.len; /* padding needs no reader */
    if (payload.len != 0 && !stream->coded.is_bad) {
        h2_bytes_add(&stream->arriving, payload);
    }
    stream->coded.is_input_ended = (head->flags & FLAG_END_STREAM) != 0;
    coded_stream_wake(&stream->coded);
}

/* ---- HEADERS, CONTINUATION ---- */

static void add_to_block(struct h2_connection *connection, struct h2_stream *stream,
                         struct str part)
{
    if (stream == NULL || connection->is_block_dropped) {
        return;
    }
    /* Packed text is not longer than what it was; each field takes a few bytes more. */
    if (connection->block.len + part.len > stream->coded.x->settings->buffer_size * 2 + 1024) {
        connection->is_block_dropped = true;
        coded_stream_fail(&stream->coded, "upstream sent too big header");
        return;
    }
    buf_append(&connection->block, part);
}

static void end_block(struct h2_connection *connection, struct h2_stream *stream)
{
    connection->block_stream = 0;
    if (stream != NULL && !connection->is_block_dropped && !stream->coded.is_bad) {
        stream->coded.is_input_ended = connection->block_ends;
        h2_take_block(stream, buf_str(&connection->block), connection->block_ends);
        coded_stream_wake(&stream->coded);
    }
    connection->block.len = 0;
}

static void take_headers(struct h2_connection *connection, const struct frame_head *head,
                         struct str payload)
{
    struct h2_stream *stream = stream_of_frame(connection, head);

    if (connection->is_bad || refuse_padding(connection, head, &payload)) {
        return;
    }
    if (stream != NULL && refuse_ended(stream)) {
        stream = NULL;
    }
    connection->block_stream = head->stream;
    connection->block_frames = 0;
    connection->block_ends = (head->flags & FLAG_END_STREAM) != 0;
    connection->is_block_dropped = stream == NULL;
    if (stream != NULL) {
        stream->coded.has_heard = true;
        stream->coded.x->attempt->bytes_received += FRAME_HEAD_SIZE + head->length;
    }
    add_to_block(connection, stream, payload);
    if ((head->flags & FLAG_END_HEADERS) != 0) {
        end_block(connection, stream);
    }
}

static void take_continuation(struct h2_connection *connection, const struct frame_head *head,
                              struct str payload)
{
    struct h2_stream *stream = h2_stream_find(connection, head->stream);

    if (++connection->block_frames > CONTINUATIONS_MAX) {
        h2_connection_fail(connection, V2_ENHANCE_YOUR_CALM,
                           "upstream sent too many continuation frames");
        return;
    }
    if (stream != NULL) {
        stream->coded.x->attempt->bytes_received += FRAME_HEAD_SIZE + head->length;
    }
    add_to_block(connection, stream, payload);
    if ((head->flags & FLAG_END_HEADERS) != 0) {
        end_block(connection, stream);
    }
}

/* ---- SETTINGS ---- */

/* All windows of streams move by the difference (6.9.2). */
static void change_windows(struct h2_connection *connection, uint32_t size)
{
    int64_t difference = (int64_t) size - connection->peer_window;

    connection->peer_window = size;
    for (unsigned i = 0; i < H2_BUCKETS; i++) {
        for (struct h2_stream *stream = connection->streams[i]; stream != NULL;
             stream = stream->next) {
            stream->send_window += difference;
            if (stream->send_window > WINDOW_MAX) {
                h2_connection_fail(connection, V2_FLOW_CONTROL_ERROR,
                                   "upstream sent settings frame with too large window size");
                return;
            }
            h2_stream_may_send(stream);
        }
    }
}

static void take_setting(struct h2_connection *connection, unsigned id, uint32_t value)
{
    switch (id) {
    case SETTING_HEADER_TABLE_SIZE:
        /* We use none; who makes the table smaller has to hear of it. */
        connection->has_table_limit |= value < 4096;
        break;
    case SETTING_ENABLE_PUSH:
        if (value != 0) {
            h2_connection_fail(connection, V2_PROTOCOL_ERROR,
                               "upstream sent settings frame that enables push: %u", value);
        }
        break;
    case SETTING_MAX_CONCURRENT_STREAMS:
        connection->peer_streams = value < H2_STREAMS_MAX ? value : H2_STREAMS_MAX;
        break;
    case SETTING_INITIAL_WINDOW_SIZE:
        if (value > WINDOW_MAX) {
            h2_connection_fail(
                connection, V2_FLOW_CONTROL_ERROR,
                "upstream sent settings frame with too large initial window size: %u", value);
        } else {
            change_windows(connection, value);
        }
        break;
    case SETTING_MAX_FRAME_SIZE:
        if (value < FRAME_SIZE_DEFAULT || value > 0xffffff) {
            h2_connection_fail(connection, V2_PROTOCOL_ERROR,
                               "upstream sent settings frame with invalid frame size: %u", value);
        }
        break;
    default:
        break;
    }
}

/* How many requests may be on the connection from now on. */
static void allow_streams(struct h2_connection *connection)
{
    struct upstream_connection *upstream = connection->connection;
    struct peer_cell *cell = upstream->cell;

    if (connection->peer_streams == 0) {
        upstream->is_doomed = true;
        return;
    }
    if (connection->is_alone) {
        return;
    }
    upstream->users_max = connection->peer_streams;
    if (connection->peer_streams > 1 && cell != NULL &&
        atomic_load_explicit(&cell->multiplexes, memory_order_relaxed) == 0) {
        atomic_store_explicit(&cell->multiplexes, 1, memory_order_relaxed);
    }
}

static void take_settings(struct h2_connection *connection, const struct frame_head *head,
                          struct str payload)
{
    if ((head->flags & FLAG_ACK) != 0) {
        return;
    }
    while (payload.len >= 6 && !connection->is_bad) {
        const unsigned char *at = (const unsigned char *) payload.data;
        take_setting(connection, (unsigned) at[0] << 8 | at[1], get_u32(payload.data + 2));
        payload = str_skip(payload, 6);
    }
    if (!connection->is_bad) {
        allow_streams(connection);
        h2_put_frame(connection, FRAME_SETTINGS, FLAG_ACK, 0, STR_NONE);
    }
}

/* ---- the others ---- */

static void take_reset(struct h2_connection *connection, const struct frame_head *head,
                       struct str payload)
{
    struct h2_stream *stream = stream_of_frame(connection, head);
    uint32_t error = get_u32(payload.data);

    if (stream == NULL) {
        return;
    }
    if (error == V2_REFUSED_STREAM && !stream->coded.has_heard) {
        coded_stream_refuse(&stream->coded, "upstream rejected request with error %u", error);
    } else if (error == V2_NO_ERROR && stream->coded.is_input_ended) {
        if (stream->is_closed) {
            coded_stream_fail(&stream->coded, "upstream sent frame for closed stream %u",
                              stream->id);
        }
        h2_stream_drop_body(stream); /* it does not want the rest */
    } else {
        coded_stream_fail(&stream->coded, "upstream rejected request with error %u", error);
    }
    stream->is_closed = true;
}

static void take_goaway(struct h2_connection *connection, struct str payload)
{
    uint32_t last = get_u32(payload.data) & WINDOW_MAX;
    uint32_t error = get_u32(payload.data + 4);

    connection->connection->is_doomed = true;
    connection->goaway_id = last < connection->goaway_id ? last : connection->goaway_id;
    for (unsigned i = 0; i < H2_BUCKETS; i++) {
        for (struct h2_stream *stream = connection->streams[i]; stream != NULL;
             stream = stream->next) {
            if (stream->id <= last || stream->coded.has_heard) {
                continue; /* it may still be answered, whatever made the backend go (RFC 9113, 6.8)
                           */
            }
            coded_stream_refuse(&stream->coded, "upstream sent goaway with error %u", error);
        }
    }
}

static void take_window(struct h2_connection *connection, const struct frame_head *head,
                        struct str payload)
{
    uint32_t more = get_u32(payload.data) & WINDOW_MAX;

    if (head->stream == 0) {
        connection->send_window += more;
        if (more == 0) {
            h2_connection_fail(connection, V2_PROTOCOL_ERROR,
                               "upstream sent window update of zero");
        } else if (connection->send_window > WINDOW_MAX) {
            h2_connection_fail(connection, V2_FLOW_CONTROL_ERROR,
                               "upstream sent too large window update");
        }
        return;
    }
    struct h2_stream *stream = stream_of_frame(connection, head);
    if (stream == NULL) {
        return;
    }
    stream->send_window += more;
    stream->heard_ms = clock_now.now_ms;
    if (more == 0) {
        coded_stream_fail(&stream->coded, "upstream sent window update of zero");
    } else if (stream->send_window > WINDOW_MAX) {
        coded_stream_fail(&stream->coded, "upstream sent too large window update");
    } else {
        h2_stream_may_send(stream);
    }
}

/* ---- heads of frames ---- */

static const char *const names[] = {"data",          "headers",      "priority", "rst stream",
                                    "settings",      "push promise", "ping",     "goaway",
                                    "window update", "continuation"};

/* What can be checked of a frame from its head. False: the connection has failed. */
static bool check_head(struct h2_connection *connection, const struct frame_head *head)
{
    bool is_stream_error;
    enum v2_error error = frame_check(head, FRAME_SIZE_DEFAULT, &is_stream_error);

    if (head->length > FRAME_SIZE_DEFAULT) {
        h2_connection_fail(connection, error, "upstream sent too large http2 frame: %u",
                           head->length);
    } else if ((!connection->has_settings && head->type != FRAME_SETTINGS) ||
               (connection->block_stream != 0 &&
                (head->type != FRAME_CONTINUATION || head->stream != connection->block_stream)) ||
               (connection->block_stream == 0 && head->type == FRAME_CONTINUATION)) {
        h2_connection_fail(connection, V2_PROTOCOL_ERROR,
                           "upstream sent unexpected http2 frame: %u", head->type);
    } else if (head->type == FRAME_PUSH_PROMISE) {
        h2_connection_fail(connection, V2_PROTOCOL_ERROR,
                           "upstream sent unexpected push promise frame");
    } else if (error == V2_FRAME_SIZE_ERROR && head->type <= FRAME_CONTINUATION) {
        h2_connection_fail(connection, error, "upstream sent %s frame with invalid length: %u",
                           names[head->type], head->length);
    } else if (error != V2_NO_ERROR && head->type <= FRAME_CONTINUATION) {
        h2_connection_fail(connection, error, "upstream sent %s frame with %szero stream id: %u",
                           names[head->type], head->stream == 0 ? "" : "non-", head->stream);
    } else if (error != V2_NO_ERROR && head->type != FRAME_PRIORITY_UPDATE) {
        h2_connection_fail(connection, error, "upstream sent invalid http2 frame: %u", head->type);
    }
    connection->has_settings = true;
    return !connection->is_bad;
}

static void take_frame(struct h2_connection *connection, const struct frame_head *head,
                       struct str payload)
{
    if (head->stream == 0) {
        connection->heard_ms = clock_now.now_ms; /* the backend is alive, for all requests on it */
    }
    if (head->stream == 0 || head->type == FRAME_RST_STREAM || head->type == FRAME_WINDOW_UPDATE) {
        connection->own_received += FRAME_HEAD_SIZE + head->length;
    }
    switch (head->type) {
    case FRAME_DATA:
        take_data(connection, head, payload);
        break;
    case FRAME_HEADERS:
        take_headers(connection, head, payload);
        break;
    case FRAME_RST_STREAM:
        take_reset(connection, head, payload);
        break;
    case FRAME_SETTINGS:
        take_settings(connection, head, payload);
        break;
    case FRAME_PING:
        if ((head->flags & FLAG_ACK) == 0) {
            h2_put_frame(connection, FRAME_PING, FLAG_ACK, 0, payload);
        }
        break;
    case FRAME_GOAWAY:
        take_goaway(connection, payload);
        break;
    case FRAME_WINDOW_UPDATE:
        take_window(connection, head, payload);
        break;
    case FRAME_CONTINUATION:
        take_continuation(connection, head, payload);
        break;
    default:
        break; /* PRIORITY means nothing to us; others are not known (4.1) */
    }
}

void h2_connection_receive(struct h2_connection *connection)
{
    struct conn *conn = connection->connection->conn;

    while (!connection->is_bad) {
        struct str raw = conn_input(conn);

        if (raw.len < FRAME_HEAD_SIZE) {
            return;
        }
        struct frame_head head = frame_read(raw.data);
        if (!check_head(connection, &head) || raw.len - FRAME_HEAD_SIZE < head.length) {
            return;
        }
        take_frame(connection, &head, (struct str){raw.data + FRAME_HEAD_SIZE, head.length});
        conn_consume(conn, FRAME_HEAD_SIZE + head.length);
    }
}
