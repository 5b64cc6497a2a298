/* Field sections that are whole: the head of a new request, or trailers. */
#include "base/clock.h"
#include "http/message/frame.h"
#include "http/message/prefixed.h"
#include "http/message/qpack_static.h"
#include "http/message/uri.h"
#include "http/request/engine.h"
#include "http/request/stream_head.h"
#include "http/routing/connection_settings.h"
#include "http/v3/v3.h"
#include "server/generation.h"

/* ---- decoding ---- */

/* The worker has no slot for another request of this connection: it may be sent again (RFC
 * 9114, 4.1.1). */
static void refuse_stream(struct v3_stream *stream)
{
    struct v3_connection *c = stream->connection;
    struct log log;

    counters_mine->limited++;
    if (!c->was_refused) {
        c->was_refused = true;
        connection_log(c->connection, V3_ACTION, &log);
        log_error(&log, 0, "worker_requests are not enough for the streams of this client");
    }
    v3_stream_drop(stream, H3_REQUEST_REJECTED);
}

static void request_make(struct v3_stream *stream, const struct http_wire *wire)
{
    struct request *request = request_new(stream->connection->connection, wire);

    stream->request = request;
    request->wire_state = stream;
    request->head.version = HTTP_3;
}

/* A head for a section; false: the stream was refused. */
static bool head_make(struct v3_stream *stream)
{
    struct v3_connection *c = stream->connection;
    bool is_trailer = stream->has_head;

    if (!is_trailer) {
        if (!request_may_begin(c->stream_count)) {
            refuse_stream(stream);
            return false;
        }
        request_make(stream, &v3_wire);
    }
    struct request *request = stream->request;
    struct stream_head *head = arena_new(&request->arena, struct stream_head);
    head->request = request;
    head->fields = is_trailer ? arena_new(&request->arena, struct fields) : &request->headers;
    head->limits = &c->limits;
    head->known_host = &c->known_host;
    head->version = "HTTP/3.0";
    head->is_trailer = is_trailer;
    stream->head = head;
    return true;
}

/* What is known of a name by its index in the static table. */
static stream_name name_of(const struct coded_field *field)
{
    static stream_name names[QPACK_STATIC_COUNT + 1];

    if (names[0] == 0) {
        names[0] = STREAM_NAME_UNKNOWN;
        for (unsigned i = 0; i < QPACK_STATIC_COUNT; i++) {
            struct str name = qpack_static_get(i)->name;
            names[i + 1] =
                name.data[0] == ':' ? STREAM_NAME_UNKNOWN : (stream_name) qpack_static_field(i);
        }
    }
    return names[field->static_index];
}

/* All fields of the section. False: the connection has failed. */
static bool decode_fields(struct v3_stream *stream, struct qpack_section *section)
{
    struct v3_connection *c = stream->connection;
    struct stream_head *head = stream->head;
    struct coded_field field;

    for (;;) {
        switch (qpack_decode(&c->decoder, section, &stream->request->arena, &field)) {
        case QPACK_FIELD:
            stream_head_take(head, &field, name_of(&field));
            if (stream_head_unpacked(head) > section->max_string) {
                v3_guard_failed(c, "bytes in compressed headers");
                return false;
            }
            break;
        case QPACK_END:
            return true;
        default:
            v3_cancel_sections(stream);
            v3_fail(c, QPACK_DECOMPRESSION_FAILED, "sent a malformed field section");
            return false;
        }
    }
}

static void acknowledge(struct v3_stream *stream, const struct qpack_section *section)
{
    struct v3_connection *c = stream->connection;
    char instruction[PREFIXED_INTEGER_ROOM];
    char *end = qpack_put_acknowledgment(instruction, &c->decoder, section, stream->id);

    if (end != instruction) {
        quic_stream_write(c->decoder_stream, str_from(instruction, end));
    }
}

enum v3_section v3_section_decode(struct v3_stream *stream, struct str block)
{
    struct v3_connection *c = stream->connection;
    struct qpack_section section = {.max_string =
                                        (size_t) c->limits.head_max * STREAM_HEAD_EXPANSION_MAX};

    switch (qpack_section_begin(&c->decoder, block, &section)) {
    case QPACK_BLOCKED:
        return V3_SECTION_BLOCKED;
    case QPACK_BAD:
        v3_fail(c, QPACK_DECOMPRESSION_FAILED, "sent a malformed field section");
        return V3_SECTION_FAILED;
    default:
        break;
    }
    if (!head_make(stream) || !decode_fields(stream, &section)) {
        return V3_SECTION_FAILED;
    }
    acknowledge(stream, &section);
    stream->request->head_size += block.len;
    return V3_SECTION_WHOLE;
}

/* ---- what follows from it ---- */

/* A client that has moved has another address, once it is proved. */
static void follow_client(struct v3_connection *c)
{
    uint32_t moves = quic_moves(c->quic);

    if (moves != c->moves) {
        c->moves = moves;
        connection_peer_changed(c->connection);
    }
}

/* The request counts, and the connection may have had its share of them. */
static void count_request(struct v3_stream *stream)
{
    struct v3_connection *c = stream->connection;
    struct request *request = stream->request;
    const struct http_location *location = request->location;

    stream->has_head = true;
    timer_remove(&stream->timer);
    follow_client(c);
    request->ordinal = ++c->connection->requests;
    if (c->phase == V3_OPEN && service_is_draining()) {
        c->phase = V3_DRAINING;
    }
    if (location->connections->keepalive_timeout_ms == 0 ||
        (int64_t) c->connection->requests >= location->connections->keepalive_requests ||
        clock_now.now_ms - c->connection->start_ms > location->connections->keepalive_time_ms) {
        v3_go_away(c);
    }
}

/* PRIORITY_UPDATE weighs more than the field, which it may have overtaken (RFC 9218, 7). */
static void set_priority(struct v3_stream *stream)
{
    struct v3_connection *c = stream->connection;
    unsigned bucket = (unsigned) (stream->id / 4 % V3_PRIORITIES_KEPT);
    uint8_t urgency;
    bool is_incremental;

    if (c->early != NULL && c->early[bucket].is_used && c->early[bucket].id == stream->id) {
        c->early[bucket].is_used = false;
        v3_prioritise(stream, c->early[bucket].urgency, c->early[bucket].is_incremental);
    } else if (stream->head->priority.data != NULL) {
        priority_parse(stream->head->priority, &urgency, &is_incremental);
        v3_prioritise(stream, urgency, is_incremental);
    }
}

/* The request is answered with its status. */
static void begin_refused(struct v3_stream *stream)
{
    const struct stream_head *head = stream->head;
    struct request *request = stream->request;

    stream_head_log(head);
    request->incoming.is_read = true;
    request->response.status = head->status;
    if (head->status == 400) {
        stream->error = H3_MESSAGE_ERROR;
        if (!v3_guard(stream->connection, V3_GUARD_ERRORS)) {
            request->response.status = 0;
        }
    }
}

void v3_start(struct v3_stream *stream)
{
    if (!list_is_empty(&stream->start_node)) {
        list_remove(&stream->start_node);
        stream->connection->starting_count--;
        request_start(stream->request);
    }
}

void v3_start_all(struct v3_connection *c)
{
    while (!list_is_empty(&c->starting)) {
        v3_start(container_of(c->starting.next, struct v3_stream, start_node));
    }
}

/*
 * Reading a head and answering the request are too much code together for the processor's cache of
 * instructions: of many requests that come in one turn some heads are read first, then these
 * requests are answered.
 */
static void start_later(struct v3_stream *stream)
{
    struct v3_connection *c = stream->connection;

    list_push_back(&c->starting, &stream->start_node);
    if (++c->starting_count == V3_STARTS_MAX) {
        v3_start_all(c);
    }
}

static void begin_request(struct v3_stream *stream)
{
    struct stream_head *head = stream->head;

    stream->is_input_ended = stream->quic->is_input_finished;
    stream_head_set_up(head, stream->is_input_ended);
    stream->is_websocket = head->is_upgrade;
    set_priority(stream);
    count_request(stream);
    if (head->status != 0) {
        begin_refused(stream);
    }
    start_later(stream);
}

static void take_trailers(struct v3_stream *stream)
{
    struct stream_head *head = stream->head;

    stream->has_trailers = true;
    if (head->status != 0) {
        stream_head_log(head);
        if (v3_guard(stream->connection, V3_GUARD_ERRORS)) {
            v3_reset(stream, H3_MESSAGE_ERROR);
        }
        return;
    }
    stream->request->incoming.trailers = head->fields->count != 0 ? head->fields : NULL;
}

void v3_section_done(struct v3_stream *stream)
{
    if (stream->has_head) {
        take_trailers(stream);
    } else {
        begin_request(stream);
    }
}

void v3_refuse_head(struct v3_stream *stream, unsigned status, const char *reason)
{
    if (stream->has_head) {
        log_info(&stream->request->log, 0, "%s", reason);
        v3_reset(stream, H3_EXCESSIVE_LOAD);
        return;
    }
    if (!head_make(stream)) {
        return;
    }
    struct request *request = stream->request;
    request_set_location(request, connection_server(stream->connection->connection)->root);
    stream_head_refuse(stream->head, status, reason, NULL);
    request_set_no_path(request);
    request->incoming.length = -1;
    count_request(stream);
    stream->is_body_broken = true; /* nothing more is read of it */
    begin_refused(stream);
    request_start(request);
}

/* ---- HTTP/0.9 ---- */

void hq_take_line(struct v3_stream *stream, struct str line)
{
    if (!request_may_begin(stream->connection->stream_count)) {
        refuse_stream(stream);
        return;
    }
    request_make(stream, &hq_wire);
    struct request *request = stream->request;

    line = arena_dup(&request->arena, str_trim(line));
    if (line.len != 0 && line.data[line.len - 1] == '\r') {
        line.len--;
    }
    request->head.line = line;
    request->head.version = HTTP_0_9;
    request->method = METHOD_GET;
    request->method_name = STR("GET");
    request->incoming.length = request->incoming.sent_length = -1;
    request->incoming.is_read = true;
    request->head_size = line.len;
    request_set_no_path(request);
    count_request(stream);
    if (!str_starts(line, STR("GET /")) || !request_set_path(request, str_skip(line, 4))) {
        log_info(&request->log, 0, "client sent invalid request");
        request->response.status = 400;
    } else {
        request->head.target = str_skip(line, 4);
    }
    request_start(request);
}
