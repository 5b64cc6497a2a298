/* Request bodies of HTTP/2: DATA as it comes, held within the window, read as a handler asks for
 * it. */
#include "http/request/body.h"
#include "http/v2/v2.h"
#include "server/generation.h"

#define BUFFER_FIRST 4096
/* Bytes more that a client may send once its body is read. */
#define READER_WINDOW 65536

void v2_body_free(struct v2_stream *stream)
{
    conn_buffer_free(stream->in, stream->in_size);
    stream->in = NULL;
    stream->in_size = stream->in_start = stream->in_end = 0;
}

/* ---- as it comes ---- */

/* How much the client may have on its way, and here unread: more when somebody reads. */
static int64_t window_of(const struct v2_stream *stream)
{
    int64_t preread = (int64_t) stream->connection->settings->preread_size;

    return stream->is_body_wanted && preread < WINDOW_MAX / 2 ? preread + READER_WINDOW : preread;
}

/* Gives back the window of what was read, once it is worth a frame. */
static void replenish(struct v2_stream *stream)
{
    int64_t window = window_of(stream);
    int64_t used = window - stream->recv_window - (stream->in_end - stream->in_start);

    if (used <= 0 || used < window / 2 || stream->is_input_ended || stream->reset != V2_NOT_RESET) {
        return;
    }
    stream->recv_window += used;
    v2_put_window(stream->connection, stream->id, (uint32_t) used);
}

static void v2_body_store(struct v2_stream *stream, struct str bytes)
{
    uint32_t unread = stream->in_end - stream->in_start;

    if (unread == 0) {
        stream->in_start = stream->in_end = 0;
    }
    if (stream->in_size - stream->in_end < bytes.len) {
        uint32_t size = stream->in_size < BUFFER_FIRST ? BUFFER_FIRST : stream->in_size;
        while (size - unread < bytes.len) {
            size *= 2;
        }
        char *buffer = stream->in;
        if (size != stream->in_size) {
            buffer = conn_buffer_alloc(size);
        }
        if (unread != 0) {
            memmove(buffer, stream->in + stream->in_start, unread);
        }
        if (buffer != stream->in) {
            conn_buffer_free(stream->in, stream->in_size);
        }
        stream->in = buffer;
        stream->in_size = size;
        stream->in_start = 0;
        stream->in_end = unread;
    }
    memcpy(stream->in + stream->in_end, bytes.data, bytes.len);
    stream->in_end += (uint32_t) bytes.len;
}

/* The body is not what was announced: a handler that reads it gets 400, and the stream ends with an
 * error. */
static void break_body(struct v2_stream *stream)
{
    stream->error = V2_PROTOCOL_ERROR;
    stream->is_input_ended = true;
    stream->is_body_broken = true;
    v2_wake(stream);
}

void v2_body_ended(struct v2_stream *stream)
{
    const struct request *request = stream->request;

    stream->is_input_ended = true;
    if (request->incoming.sent_length >= 0 && !stream->is_websocket &&
        stream->body_bytes != (uint64_t) request->incoming.sent_length) {
        if (v2_guard(stream->connection, GUARD_ERRORS)) {
            log_info(&request->log, 0,
                     "client prematurely closed stream: only %llu out of %lld bytes of request "
                     "body received",
                     (unsigned long long) stream->body_bytes,
                     (long long) request->incoming.sent_length);
            break_body(stream);
        }
        return;
    }
    v2_wake(stream);
}

/* The connection's window is always wide: streams have theirs. */
static bool take_window(struct v2_connection *c, uint32_t size)
{
    if (size > c->recv_window) {
        v2_fail(c, V2_FLOW_CONTROL_ERROR, "violated the connection's flow control");
        return false;
    }
    c->recv_window -= size;
    if (c->recv_window < WINDOW_MAX / 4) {
        v2_put_window(c, 0, (uint32_t) (WINDOW_MAX - c->recv_window));
        c->recv_window = WINDOW_MAX;
    }
    return true;
}

/* May DATA come of a stream that is not worked on? */
static bool is_drained(struct v2_connection *c, uint32_t id)
{
    if (v2_drain_has(c, id)) {
        return true;
    }
    if (id > c->last_stream || id % 2 == 0) {
        v2_fail(c, V2_PROTOCOL_ERROR, "sent DATA frame of idle stream %u", id);
    } else if (!v2_is_overlooked(c, id) && v2_ending(c, id) != END_BY_US &&
               v2_guard(c, GUARD_ERRORS)) {
        v2_put_reset(c, id, V2_STREAM_CLOSED);
        v2_note_closed(c, id, END_BY_US);
    }
    return false;
}

/* May DATA of a stream with a request be taken? */
static bool takes_data(struct v2_stream *stream, uint32_t length, uint32_t size)
{
    struct v2_connection *c = stream->connection;
    const struct request *request = stream->request;

    if (stream->reset != V2_NOT_RESET || stream->is_body_broken) {
        return false;
    }
    if (stream->is_input_ended) {
        if (v2_guard(c, GUARD_ERRORS)) {
            v2_reset(stream, V2_STREAM_CLOSED);
        }
        return false;
    }
    if (length > stream->recv_window) {
        log_info(&request->log, 0, "client violated flow control for stream %u", stream->id);
        if (v2_guard(c, GUARD_ERRORS)) {
            v2_reset(stream, V2_FLOW_CONTROL_ERROR);
        }
        return false;
    }
    if (request->incoming.sent_length >= 0 && !stream->is_websocket &&
        stream->body_bytes + size > (uint64_t) request->incoming.sent_length) {
        if (v2_guard(c, GUARD_ERRORS)) {
            log_info(&stream->request->log, 0,
                     "client intended to send body data larger than declared");
            break_body(stream);
        }
        return false;
    }
    return true;
}

void v2_data_begin(struct v2_connection *c, const struct frame_head *head, uint32_t size)
{
    uint32_t id = head->stream;
    struct v2_stream *stream = v2_find(c, id);
    bool is_last = (head->flags & FLAG_END_STREAM) != 0;

    if (!take_window(c, head->length) || (size == 0 && !is_last && !v2_guard(c, GUARD_EMPTY))) {
        return;
    }
    if (stream == NULL ? is_drained(c, id) : takes_data(stream, head->length, size)) {
        c->part.stream = id;
        c->part.ends_stream = is_last;
        /* The byte that tells of padding counts, too. */
        v2_data_part(c, STR_NONE, (head->flags & FLAG_PADDED) != 0, is_last && !c->part.is_open);
    }
}

void v2_data_part(struct v2_connection *c, struct str bytes, uint32_t padding, bool is_last)
{
    struct v2_stream *stream = v2_find(c, c->part.stream);

    if (stream == NULL) {
        v2_drain_data(c, c->part.stream, bytes.len, padding, is_last);
        return;
    }
    if (stream->reset != V2_NOT_RESET || stream->is_body_broken) {
        return;
    }
    uint32_t length = (uint32_t) bytes.len + padding;
    stream->recv_window -= length;
    stream->body_bytes += bytes.len;
    stream->request->incoming.received += bytes.len;
    if (bytes.len != 0) {
        v2_body_store(stream, bytes);
        v2_wake(stream);
    }
    if (is_last) {
        v2_body_ended(stream);
    } else {
        replenish(stream);
    }
}

/* ---- as it is read ---- */

/* Waits for more. False: time is up, or the stream is over. MAY WAIT. */
static bool wait_for_input(struct v2_stream *stream)
{
    if (request_body_wait(stream->request, &stream->input)) {
        return true;
    }
    if (stream->request->incoming.refusal == 408 && !stream->request->incoming.is_too_slow) {
        stream->error = V2_PROTOCOL_ERROR;
    }
    return false;
}

/* A handler begins to read: the client may send more, and a client that waits for 100 gets it. */
static void want_body(struct v2_stream *stream)
{
    struct request *request = stream->request;

    if (request->incoming.reads_no_further) {
        return; /* only what is there is looked at */
    }
    stream->is_body_wanted = true;
    if (stream->body_bytes == 0) {
        request_body_invite(request);
    }
    replenish(stream);
}

ssize_t v2_read_body(struct request *request, void *at, size_t size)
{
    struct v2_stream *stream = request->wire_state;

    if (request->incoming.is_read && request->response.framing != FRAMING_TUNNEL) {
        return 0;
    }
    if (!stream->is_body_wanted) {
        want_body(stream);
    }
    /* What came before a reset is no whole body, nor the end of one. */
    while (stream->in_start == stream->in_end || stream->is_body_broken ||
           stream->reset != V2_NOT_RESET) {
        if (stream->reset != V2_NOT_RESET) {
            return request_body_refuse(request, 0);
        }
        if (stream->is_body_broken) {
            return request_body_refuse(request, 400);
        }
        if (stream->is_input_ended) {
            request->incoming.is_read = true;
            return 0;
        }
        if (!wait_for_input(stream)) {
            return -1;
        }
    }
    size_t unread = stream->in_end - stream->in_start;
    size_t n = unread < size ? unread : size;
    memcpy(at, stream->in + stream->in_start, n);
    stream->in_start += (uint32_t) n;
    if (n == unread && stream->is_input_ended) {
        v2_body_free(stream);
        request->incoming.is_read = request->response.framing != FRAMING_TUNNEL;
    }
    replenish(stream);
    return (ssize_t) n;
}

bool v2_has_whole_body(const struct request *request, uint64_t most)
{
    const struct v2_stream *stream = request->wire_state;

    return stream->is_input_ended && stream->reset == V2_NOT_RESET && !stream->is_body_broken &&
           stream->in_end - stream->in_start <= most;
}
