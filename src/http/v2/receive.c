/* What each frame does (RFC 9113, 6). */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/request/request.h"
#include "http/v2/v2.h"
#include "server/generation.h"

#define CONTINUATIONS_MAX 64 /* frames of one header block; its bytes are limited, too */

/* ---- header blocks ---- */

static size_t block_limit(const struct v2_connection *c)
{
    return connection_server(c->connection)->head_limits.head_max;
}

/* Adds a part to the block that is being joined. False: the connection has failed. */
static bool join_block(struct v2_connection *c, struct str part)
{
    if (c->header_block.size + part.len > block_limit(c)) {
        v2_guard_failed(c, "bytes in a header block");
        return false;
    }
    if (c->header_block.size + part.len > c->header_block.capacity) {
        size_t capacity = c->header_block.capacity < 4096 ? 4096 : c->header_block.capacity;
        while (capacity < c->header_block.size + part.len) {
            capacity *= 2;
        }
        char *bigger = realloc(c->header_block.bytes, capacity);
        if (bigger == NULL) {
            fatal_no_memory(capacity);
        }
        c->header_block.bytes = bigger;
        c->header_block.capacity = capacity;
    }
    if (part.len != 0) {
        memcpy(c->header_block.bytes + c->header_block.size, part.data, part.len);
    }
    c->header_block.size += part.len;
    return true;
}

static void block_is_whole(struct v2_connection *c)
{
    uint32_t id = c->header_block.stream;

    c->header_block.stream = 0;
    v2_take_block(c, id, c->header_block.flags,
                  (struct str){c->header_block.bytes, c->header_block.size});
    free(c->header_block.bytes);
    c->header_block.bytes = NULL;
    c->header_block.size = c->header_block.capacity = 0;
}

/* It has no room for what its flags announce, or more padding than bytes (6.2). */
static void fail_for_padding(struct v2_connection *c, const struct frame_head *head,
                             struct str payload)
{
    bool is_padded = (head->flags & FLAG_PADDED) != 0;
    uint32_t least = (is_padded ? 1 : 0) + ((head->flags & FLAG_PRIORITY) != 0 ? 5 : 0);

    if (head->length < least) {
        v2_fail(c, V2_FRAME_SIZE_ERROR, "sent HEADERS frame with incorrect length %u",
                head->length);
    } else {
        v2_fail(c, V2_PROTOCOL_ERROR,
                "sent padded HEADERS frame with incorrect length: %u, padding: %d", head->length,
                is_padded ? (unsigned char) payload.data[0] : 0);
    }
}

static void on_headers(struct v2_connection *c, const struct frame_head *head, struct str payload)
{
    struct frame_priority priority;
    struct str whole = payload;

    if (!frame_unpad(head, &payload, &priority)) {
        fail_for_padding(c, head, whole);
        return;
    }
    if (head->stream % 2 == 0) {
        v2_fail(c, V2_PROTOCOL_ERROR,
                "sent HEADERS frame with incorrect identifier %u, the last was %u", head->stream,
                c->last_stream);
        return;
    }
    if (priority.is_there && priority.depends_on == head->stream) {
        v2_fail(c, V2_PROTOCOL_ERROR, "sent HEADERS frame for stream %u with incorrect dependency",
                head->stream);
        return;
    }
    c->header_block.priority = priority;
    if ((head->flags & FLAG_END_HEADERS) != 0) {
        v2_take_block(c, head->stream, head->flags, payload);
        return;
    }
    c->header_block.stream = head->stream;
    c->header_block.flags = head->flags;
    c->header_block.frames = 0;
    join_block(c, payload);
}

static void on_continuation(struct v2_connection *c, const struct frame_head *head,
                            struct str payload)
{
    if (c->header_block.stream == 0) {
        v2_fail(c, V2_PROTOCOL_ERROR, "sent unexpected CONTINUATION frame");
        return;
    }
    if (++c->header_block.frames > CONTINUATIONS_MAX) {
        v2_guard_failed(c, "CONTINUATION frames");
        return;
    }
    if (join_block(c, payload) && (head->flags & FLAG_END_HEADERS) != 0) {
        block_is_whole(c);
    }
}

/* ---- settings ---- */

static void widen_one(struct v2_stream *stream, void *arg)
{
    if (!v2_stream_widen(stream, *(int64_t *) arg)) {
        v2_fail(stream->connection, V2_FLOW_CONTROL_ERROR, "sent too large an initial window");
    }
}

static void shift_received(struct v2_stream *stream, void *arg)
{
    stream->recv_window += *(int64_t *) arg;
}

static void take_setting(struct v2_connection *c, uint16_t id, uint32_t value)
{
    int64_t change;

    switch (id) {
    case SETTING_HEADER_TABLE_SIZE:
        hpack_encoder_limit(&c->encoder, value);
        break;
    case SETTING_ENABLE_PUSH:
        if (value > 1) {
            v2_fail(c, V2_PROTOCOL_ERROR, "sent SETTINGS frame with incorrect ENABLE_PUSH value %u",
                    value);
        }
        break;
    case SETTING_INITIAL_WINDOW_SIZE:
        if (value > WINDOW_MAX) {
            v2_fail(c, V2_FLOW_CONTROL_ERROR,
                    "sent SETTINGS frame with incorrect INITIAL_WINDOW_SIZE value %u", value);
            break;
        }
        change = (int64_t) value - c->peer_window;
        c->peer_window = value;
        v2_each(c, widen_one, &change);
        break;
    case SETTING_MAX_FRAME_SIZE:
        if (value < FRAME_SIZE_DEFAULT || value > FRAME_SIZE_MAX) {
            v2_fail(c, V2_PROTOCOL_ERROR,
                    "sent SETTINGS frame with incorrect MAX_FRAME_SIZE value %u", value);
            break;
        }
        c->peer_frame_max = value;
        break;
    case SETTING_ENABLE_CONNECT_PROTOCOL:
    case SETTING_NO_RFC7540_PRIORITIES:
        if (value > 1) {
            v2_fail(c, V2_PROTOCOL_ERROR,
                    "sent SETTINGS frame with incorrect value %u of setting %u", value, id);
        }
        c->scheduler.ignores_weights |= id == SETTING_NO_RFC7540_PRIORITIES && value == 1;
        break;
    default:
        break;
    }
}

static void on_settings(struct v2_connection *c, const struct frame_head *head, struct str payload)
{
    if ((head->flags & FLAG_ACK) != 0) {
        if (!c->is_acknowledged) {
            int64_t change = (int64_t) c->settings->preread_size - WINDOW_DEFAULT;
            c->is_acknowledged = true;
            v2_each(c, shift_received, &change);
            v2_drains_shift(c, change);
        } else {
            v2_guard(c, GUARD_SETTINGS); /* of none that we sent */
        }
        return;
    }
    if (!v2_guard(c, GUARD_SETTINGS)) {
        return;
    }
    for (; payload.len != 0 && c->phase < V2_FAILED; payload = str_skip(payload, 6)) {
        const unsigned char *b = (const unsigned char *) payload.data;
        take_setting(c, (uint16_t) (b[0] << 8 | b[1]), get_u32(payload.data + 2));
    }
    if (c->phase < V2_FAILED) {
        char *out = conn_out_room(c->conn, FRAME_HEAD_SIZE);
        frame_put(out, 0, FRAME_SETTINGS, FLAG_ACK, 0);
        conn_out_commit(c->conn, FRAME_HEAD_SIZE);
    }
}

/* ---- the small ones ---- */

static void on_ping(struct v2_connection *c, const struct frame_head *head, struct str payload)
{
    if (!v2_guard(c, GUARD_PINGS) || (head->flags & FLAG_ACK) != 0) {
        return;
    }
    char *out = conn_out_room(c->conn, FRAME_HEAD_SIZE + 8);
    memcpy(frame_put(out, 8, FRAME_PING, FLAG_ACK, 0), payload.data, 8);
    conn_out_commit(c->conn, FRAME_HEAD_SIZE + 8);
}

/* Is the identifier one that no stream has had yet? Then the connection has failed. */
static bool is_idle(struct v2_connection *c, uint32_t id, const char *frame)
{
    if (id > c->last_stream || id % 2 == 0) {
        v2_fail(c, V2_PROTOCOL_ERROR, "sent %s frame of idle stream %u", frame, id);
        return true;
    }
    return false;
}

static void log_reset(struct v2_stream *stream, uint32_t error)
{
    struct log *log = &stream->request->log;

    switch (error) {
    case V2_CANCEL:
        log_info(log, 0, "client canceled stream %u", stream->id);
        break;
    case V2_REFUSED_STREAM:
        log_info(log, 0, "client refused stream %u", stream->id);
        break;
    case V2_INTERNAL_ERROR:
        log_info(log, 0, "client terminated stream %u due to internal error", stream->id);
        break;
    default:
        log_info(log, 0, "client terminated stream %u with status %u", stream->id, error);
        break;
    }
}

static void on_reset(struct v2_connection *c, const struct frame_head *head, struct str payload)
{
    struct v2_stream *stream = v2_find(c, head->stream);

    if (stream == NULL) {
        if (v2_is_overlooked(c, head->stream) || v2_drain_reset(c, head->stream)) {
            return;
        }
        if (is_idle(c, head->stream, "RST_STREAM")) {
            return;
        }
        /* A stream that was answered before its reset came is not a quick one. */
        enum v2_end end = v2_ending(c, head->stream);
        if (end == END_UNKNOWN || end == END_BY_PEER) {
            v2_guard(c, GUARD_RESETS);
        }
        v2_note_closed(c, head->stream, END_BY_PEER);
        return;
    }
    if (stream->reset == V2_NOT_RESET) {
        log_reset(stream, get_u32(payload.data));
        v2_cancel(stream, V2_RESET_BY_PEER);
        v2_guard(c, GUARD_RESETS);
    }
}

#define NO_INCREMENT "sent WINDOW_UPDATE frame with incorrect window increment 0"

static void on_window(struct v2_connection *c, const struct frame_head *head, struct str payload)
{
    uint32_t by = get_u32(payload.data) & 0x7fffffff;

    if (!v2_guard(c, GUARD_WINDOWS)) {
        return;
    }
    if (head->stream == 0) {
        if (by == 0) {
            v2_fail(c, V2_PROTOCOL_ERROR, NO_INCREMENT);
        } else if (!v2_widen(c, by)) {
            v2_fail(c, V2_FLOW_CONTROL_ERROR,
                    "violated connection flow control: received WINDOW_UPDATE frame with window "
                    "increment %u not allowed for window %lld",
                    by, (long long) c->send_window - by);
        }
        return;
    }
    struct v2_stream *stream = v2_find(c, head->stream);
    if (stream == NULL) {
        if (!v2_is_overlooked(c, head->stream) && !v2_drain_window(c, head->stream, by) &&
            !is_idle(c, head->stream, "WINDOW_UPDATE") && by == 0 && v2_guard(c, GUARD_ERRORS)) {
            v2_put_reset(c, head->stream, V2_PROTOCOL_ERROR);
        }
        return;
    }
    if (stream->reset != V2_NOT_RESET) {
        return;
    }
    if (by == 0) {
        log_info(&stream->request->log, 0, "client " NO_INCREMENT);
        if (v2_guard(c, GUARD_ERRORS)) {
            v2_reset(stream, V2_PROTOCOL_ERROR);
        }
    } else if (!v2_stream_widen(stream, by)) {
        log_info(&stream->request->log, 0,
                 "client violated flow control for stream %u: received WINDOW_UPDATE frame with "
                 "window increment %u not allowed for window %lld",
                 stream->id, by, (long long) stream->send_window - by);
        if (v2_guard(c, GUARD_ERRORS)) {
            v2_reset(stream, V2_FLOW_CONTROL_ERROR);
        }
    }
}

/* The old scheme of priorities: see weights.c. */
static void on_priority(struct v2_connection *c, const struct frame_head *head, struct str payload)
{
    if (!v2_guard(c, GUARD_PRIORITIES)) {
        return;
    }
    struct frame_priority priority = frame_priority_read(payload.data);

    if (priority.depends_on == head->stream) {
        v2_fail(c, V2_PROTOCOL_ERROR, "sent PRIORITY frame for stream %u with incorrect dependency",
                head->stream);
    } else {
        v2_weights_change(c, head->stream, &priority);
    }
}

/* RFC 9218, 7.1. What comes before its stream does is kept, of a few. */
static void on_priority_update(struct v2_connection *c, struct str payload)
{
    uint32_t id = get_u32(payload.data) & 0x7fffffff;

    if (!v2_guard(c, GUARD_PRIORITIES)) {
        return;
    }
    if (id == 0 || id % 2 == 0) {
        v2_fail(c, V2_PROTOCOL_ERROR, "sent PRIORITY_UPDATE of no request");
        return;
    }
    uint8_t urgency;
    bool is_incremental;
    c->scheduler.ignores_weights = true;
    priority_parse(str_skip(payload, 4), &urgency, &is_incremental);
    struct v2_stream *stream = v2_find(c, id);
    if (stream != NULL) {
        v2_prioritise(stream, urgency, is_incremental);
    } else if (id > c->last_stream) {
        unsigned position = id / 2 % PRIORITIES_KEPT;
        c->scheduler.early[position].id = id;
        c->scheduler.early[position].urgency = urgency;
        c->scheduler.early[position].is_incremental = is_incremental;
    }
}

void v2_receive(struct v2_connection *c, const struct frame_head *head, struct str payload)
{
    switch (head->type) {
    case FRAME_DATA:
        v2_data_begin(c, head, c->part.left);
        break;
    case FRAME_HEADERS:
        on_headers(c, head, payload);
        break;
    case FRAME_PRIORITY:
        on_priority(c, head, payload);
        break;
    case FRAME_RST_STREAM:
        on_reset(c, head, payload);
        break;
    case FRAME_SETTINGS:
        on_settings(c, head, payload);
        break;
    case FRAME_PING:
        on_ping(c, head, payload);
        break;
    case FRAME_GOAWAY:
        c->connection->is_last = true;
        break;
    case FRAME_WINDOW_UPDATE:
        on_window(c, head, payload);
        break;
    case FRAME_CONTINUATION:
        on_continuation(c, head, payload);
        break;
    case FRAME_PRIORITY_UPDATE:
        on_priority_update(c, payload);
        break;
    default:
        v2_guard(c, GUARD_UNKNOWN);
        break;
    }
}
