/* Header blocks that are whole: a new request, the trailers of one, or of nothing that is there. */
#include "base/clock.h"
#include "http/request/engine.h"
#include "http/routing/connection_settings.h"
#include "http/v2/heading.h"
#include "server/generation.h"

static void set_priority(const struct stream_head *head, struct v2_stream *stream)
{
    /* Streams without a priority take turns. */
    stream->urgency = 3;
    stream->is_incremental = true;
    if (head->priority.data != NULL) {
        stream->connection->scheduler.ignores_weights = true;
        priority_parse(head->priority, &stream->urgency, &stream->is_incremental);
    } else {
        v2_weights_begin(stream, &stream->connection->header_block.priority);
    }
    /* A frame weighs more than the header, which it may have overtaken (RFC 9218, 7). */
    unsigned position = stream->id / 2 % PRIORITIES_KEPT;
    if (stream->connection->scheduler.early[position].id == stream->id) {
        stream->urgency = stream->connection->scheduler.early[position].urgency;
        stream->is_incremental = stream->connection->scheduler.early[position].is_incremental;
    }
}

/* The request is answered with its status, and its stream ends with an error where it was
 * malformed. */
static void begin_refused(struct v2_connection *c, struct stream_head *head)
{
    struct request *request = head->request;
    struct v2_stream *stream = request->wire_state;

    stream_head_log(head);
    stream->error = head->status == 400 ? V2_PROTOCOL_ERROR : V2_NO_ERROR;
    request->incoming.is_read = true;
    request->response.status = head->status;
    if (stream->error != V2_NO_ERROR && !v2_guard(c, GUARD_ERRORS)) {
        request->response.status = 0;
    }
}

static void begin_request(struct v2_connection *c, struct stream_head *head, uint32_t id,
                          uint8_t flags)
{
    struct request *request = head->request;
    struct v2_stream *stream = request->wire_state;

    v2_stream_add(c, stream, id);
    stream->is_input_ended = (flags & FLAG_END_STREAM) != 0;
    stream_head_set_up(head, stream->is_input_ended);
    stream->is_websocket = head->is_upgrade;
    set_priority(head, stream);
    request->ordinal = ++c->connection->requests;
    if (c->phase == V2_OPEN && service_is_draining()) {
        c->phase = V2_DRAINING;
    }
    const struct http_location *location = request->location;
    if (location->connections->keepalive_timeout_ms == 0 ||
        (int64_t) c->connection->requests >= location->connections->keepalive_requests ||
        clock_now.now_ms - c->connection->start_ms > location->connections->keepalive_time_ms) {
        v2_go_away(c, V2_NO_ERROR);
    }
    if (head->status != 0) {
        begin_refused(c, head);
    }
    request_start(request);
}

/* ---- the block ---- */

/*
 * A block that belongs to no stream is decoded all the same: it changes the table. *has_fault: it
 * would have been wrong as trailers. False: the connection has failed.
 */
static bool decode_unused(struct v2_connection *c, struct str block, bool *has_fault)
{
    struct request *request = request_new(c->connection, &v2_wire);
    struct stream_head head = {.request = request,
                               .fields = &request->headers,
                               .limits = &connection_server(c->connection)->head_limits,
                               .is_trailer = true};
    bool is_sound = heading_decode(c, &head, block);

    *has_fault = head.status != 0;
    request_free(request);
    return is_sound;
}

static void take_trailers(struct v2_stream *stream, uint8_t flags, struct str block)
{
    struct v2_connection *c = stream->connection;
    struct request *request = stream->request;
    struct stream_head head = {.request = request,
                               .limits = &connection_server(c->connection)->head_limits,
                               .is_trailer = true};

    if (stream->is_input_ended && stream->reset == V2_NOT_RESET) {
        bool has_fault;
        if (decode_unused(c, block, &has_fault) && v2_guard(c, GUARD_ERRORS)) {
            v2_reset(stream, V2_STREAM_CLOSED);
        }
        return;
    }
    head.fields = arena_new(&request->arena, struct fields);
    request->head_size += FRAME_HEAD_SIZE + block.len;
    if (!heading_decode(c, &head, block) || stream->reset != V2_NOT_RESET) {
        return;
    }
    if ((flags & FLAG_END_STREAM) == 0) {
        stream_head_refuse(&head, 400, "client sent trailers that do not end the stream", NULL);
    }
    if (head.status != 0) {
        stream_head_log(&head);
        if (v2_guard(c, GUARD_ERRORS)) {
            v2_reset(stream, V2_PROTOCOL_ERROR);
        }
        return;
    }
    request->incoming.trailers = head.fields->count != 0 ? head.fields : NULL;
    v2_body_ended(stream);
}

/* An identifier that was used before, or skipped (5.1.1). */
static void take_stale(struct v2_connection *c, uint32_t id, uint8_t flags, struct str block)
{
    bool has_fault;

    if (v2_is_overlooked(c, id)) {
        decode_unused(c, block, &has_fault);
        return;
    }
    if (v2_drain_has(c, id)) {
        if (decode_unused(c, block, &has_fault)) {
            v2_drain_trailers(c, id, !has_fault && (flags & FLAG_END_STREAM) != 0);
        }
        return;
    }
    switch (v2_ending(c, id)) {
    case END_BY_US:
        decode_unused(c, block, &has_fault);
        break;
    case END_BY_PEER:
        v2_fail(c, V2_STREAM_CLOSED,
                "sent HEADERS frame with incorrect identifier %u, of a closed stream", id);
        break;
    default:
        v2_fail(c, V2_PROTOCOL_ERROR,
                "sent HEADERS frame with incorrect identifier %u, the last was %u", id,
                c->last_stream);
        break;
    }
}

/* The worker has no place for another stream of this connection: it may be asked for again (RFC
 * 9113, 8.7). */
static void refuse_stream(struct v2_connection *c, uint32_t id, struct str block)
{
    struct log log;
    bool has_fault;

    if (!decode_unused(c, block, &has_fault)) {
        return;
    }
    v2_put_reset(c, id, V2_REFUSED_STREAM);
    v2_note_closed(c, id, END_BY_US);
    counters_mine->limited++;
    if (!c->was_refused) {
        c->was_refused = true;
        connection_log(c->connection, "processing HTTP/2 connection", &log);
        log_error(&log, 0, "worker_requests are not enough for the streams of this client");
    }
}

void v2_take_block(struct v2_connection *c, uint32_t id, uint8_t flags, struct str block)
{
    struct v2_stream *stream = v2_find(c, id);

    if (stream != NULL) {
        take_trailers(stream, flags, block);
        return;
    }
    if (id <= c->last_stream) {
        take_stale(c, id, flags, block);
        return;
    }
    c->last_stream = id;
    if (id == c->deadline.late_stream) {
        bool has_fault;
        decode_unused(c, block, &has_fault);
        v2_note_closed(c, id, END_BY_US);
        return;
    }
    if (c->phase >= V2_GOING_AWAY || c->stream_count >= (uint64_t) c->settings->max_streams) {
        bool has_fault;
        if (decode_unused(c, block, &has_fault) && c->phase < V2_GOING_AWAY &&
            v2_guard(c, GUARD_ERRORS)) {
            v2_put_reset(c, id, V2_REFUSED_STREAM);
            v2_note_closed(c, id, END_BY_US);
        }
        return;
    }
    if (!request_may_begin(c->stream_count)) {
        refuse_stream(c, id, block);
        return;
    }
    struct request *request = request_new(c->connection, &v2_wire);
    struct stream_head head = {.request = request,
                               .fields = &request->headers,
                               .limits = &connection_server(c->connection)->head_limits,
                               .known_host = &c->known_host,
                               .version = "HTTP/2.0"};
    stream = arena_new(&request->arena, struct v2_stream);
    stream->request = request;
    request->wire_state = stream;
    request->head.version = HTTP_2;
    request->head_size = block.len;
    if (!heading_decode(c, &head, block)) {
        request_free(request);
        return;
    }
    begin_request(c, &head, id, flags);
}
