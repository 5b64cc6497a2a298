/* Responses of HTTP/2 on the wire: heads, DATA, trailers, interim responses. */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "http/v2/v2.h"
#include "server/generation.h"

/* A whole body up to this size leaves with its head. */
#define COPY_MAX 4096

/* Numbers in HPACK's static table of the names that the server knows; 0 = not there. */
static const uint8_t static_of[FIELD_COUNT] = {
    [FIELD_HOST] = 38,
    [FIELD_CONTENT_LENGTH] = 28,
    [FIELD_CONTENT_TYPE] = 31,
    [FIELD_TRANSFER_ENCODING] = 57,
    [FIELD_EXPECT] = 35,
    [FIELD_USER_AGENT] = 58,
    [FIELD_REFERER] = 51,
    [FIELD_IF_MODIFIED_SINCE] = 40,
    [FIELD_IF_UNMODIFIED_SINCE] = 43,
    [FIELD_IF_MATCH] = 39,
    [FIELD_IF_NONE_MATCH] = 41,
    [FIELD_IF_RANGE] = 42,
    [FIELD_RANGE] = 50,
    [FIELD_ACCEPT_ENCODING] = 16,
    [FIELD_AUTHORIZATION] = 23,
    [FIELD_COOKIE] = 32,
    [FIELD_VIA] = 60,
    [FIELD_SERVER] = 54,
    [FIELD_DATE] = 33,
    [FIELD_LOCATION] = 46,
    [FIELD_LAST_MODIFIED] = 44,
    [FIELD_ETAG] = 34,
    [FIELD_ACCEPT_RANGES] = 18,
    [FIELD_CONTENT_RANGE] = 30,
    [FIELD_CONTENT_ENCODING] = 26,
    [FIELD_CACHE_CONTROL] = 24,
    [FIELD_EXPIRES] = 36,
    [FIELD_LINK] = 45,
    [FIELD_VARY] = 59,
    [FIELD_WWW_AUTHENTICATE] = 61,
    [FIELD_SET_COOKIE] = 55,
    [FIELD_REFRESH] = 52,
};

/* Fields that speak of a connection have no place here (RFC 9113, 8.2.2). */
static bool is_of_connection(const struct field *field)
{
    switch (field->id) {
    case FIELD_CONNECTION:
    case FIELD_KEEP_ALIVE:
    case FIELD_TRANSFER_ENCODING:
    case FIELD_UPGRADE:
        return true;
    case FIELD_OTHER:
        return str_equal_nocase(field->name, STR("Proxy-Connection")) ||
               str_equal_nocase(field->name, STR("HTTP2-Settings"));
    default:
        return false;
    }
}

/* Values that are seldom the same twice, or secret, do not go to the table (RFC 7541, 7.1.3). */
static bool is_worth_indexing(unsigned id)
{
    switch (id) {
    case FIELD_SET_COOKIE:
    case FIELD_CONTENT_RANGE:
    case FIELD_LOCATION:
    case FIELD_AUTHORIZATION:
        return false;
    default:
        return true;
    }
}

/* ---- heads ---- */

static size_t head_room(const struct request *request)
{
    const struct response *response = &request->response;
    size_t size = 512 + request->location->server_field.len + response->content_type.len +
                  response->charset.len + response->etag.len + response->location.len;

    fields_each(field, &response->fields) {
        size += hpack_field_room(field->name, field->value);
    }
    return size;
}

/* Text that stays the same over responses: most often its number in the table is known. */
static char *put_server(char *at, struct v2_connection *c, struct str line)
{
    if (line.len < 10) {
        return at; /* server_tag off */
    }
    if (c->server_text == line.data) {
        char *end = hpack_put_number(at, &c->encoder, c->server_number);
        if (end != NULL) {
            return end;
        }
    }
    unsigned before = c->encoder.first;
    struct str value = {line.data + 8, line.len - 10}; /* without "Server: " and the line's end */
    at = hpack_put_field(at, &c->encoder, 54, STR("server"), value, true);
    c->server_text = line.data;
    c->server_number = c->encoder.first != before ? c->encoder.first : 0;
    return at;
}

static char *put_date(char *at, struct v2_connection *c)
{
    if (c->date_second == clock_now.seconds) {
        char *end = hpack_put_number(at, &c->encoder, c->date_number);
        if (end != NULL) {
            return end;
        }
    }
    unsigned before = c->encoder.first;
    at = hpack_put_field(at, &c->encoder, 33, STR("date"), CLOCK_STR(http_date), true);
    c->date_second = clock_now.seconds;
    c->date_number = c->encoder.first != before ? c->encoder.first : 0;
    return at;
}

static char *put_known(char *at, struct v2_connection *c, enum field_id id, struct str value)
{
    return hpack_put_field(at, &c->encoder, static_of[id], field_names[id], value,
                           is_worth_indexing(id));
}

static char *put_content_type(char *at, struct v2_connection *c, struct request *request)
{
    const struct response *response = &request->response;
    struct str type = response->content_type;

    if (type.len == 0) {
        return at;
    }
    if (response->charset.len != 0) {
        const struct str parts[] = {type, STR("; charset="), response->charset};
        type = arena_join(&request->arena, parts, 3);
    }
    return put_known(at, c, FIELD_CONTENT_TYPE, type);
}

static char *put_length(char *at, struct v2_connection *c, const struct response *response)
{
    char digits[24];

    if (response->content_length < 0 || response->is_tunnel || response->status == 204) {
        return at;
    }
    char *end = format_uint(digits, (uint64_t) response->content_length);
    return hpack_put_field(at, &c->encoder, 28, STR_NONE, str_from(digits, end), false);
}

static char *put_modified(char *at, struct v2_connection *c, const struct response *response)
{
    char date[32];

    if (response->last_modified == -1) {
        return at;
    }
    struct str text = response->last_modified_text.len != 0
                          ? response->last_modified_text
                          : str_from(date, http_date_format(date, response->last_modified));
    return put_known(at, c, FIELD_LAST_MODIFIED, text);
}

/* The status as HTTP/2 has it: a tunnel is accepted with 200, 101 does not exist (RFC 8441, 5). */
static unsigned status_of(const struct v2_stream *stream)
{
    const struct response *response = &stream->request->response;

    if (response->is_tunnel && response->status == 101) {
        return 200;
    }
    if (stream->is_websocket && !response->is_tunnel && response->status < 300) {
        return 501; /* 2xx would promise a tunnel, and this place has made none */
    }
    return response->status;
}

/* The header block, in the order that nginx has. */
static char *put_head(char *at, struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    struct request *request = stream->request;
    const struct response *response = &request->response;
    uint64_t seen = response->fields.seen;

    at = hpack_put_limit(at, &c->encoder);
    at = hpack_put_status(at, &c->encoder, status_of(stream));
    if ((seen & FIELD_BIT(FIELD_SERVER)) == 0 ||
        fields_get(&response->fields, FIELD_SERVER) == NULL) {
        at = put_server(at, c, request->location->server_field);
    }
    if ((seen & FIELD_BIT(FIELD_DATE)) == 0 || fields_get(&response->fields, FIELD_DATE) == NULL) {
        at = put_date(at, c);
    }
    at = put_content_type(at, c, request);
    at = put_length(at, c, response);
    at = put_modified(at, c, response);
    if (response->location.len != 0) {
        at = put_known(at, c, FIELD_LOCATION, response->location);
    }
    if (response->etag.len != 0) {
        at = put_known(at, c, FIELD_ETAG, response->etag);
    }
    fields_each(field, &response->fields) {
        if (!field->is_removed && !is_of_connection(field)) {
            at = hpack_put_field(at, &c->encoder, static_of[field->id], field->name, field->value,
                                 is_worth_indexing(field->id));
        }
    }
    return at;
}

/* A block that lies in memory, in HEADERS and as many CONTINUATIONs as it needs. */
static void write_block(struct v2_stream *stream, struct str block, bool is_last)
{
    struct v2_connection *c = stream->connection;
    uint8_t flags = is_last ? FLAG_END_STREAM : 0;
    uint8_t type = FRAME_HEADERS;

    do {
        struct str part = str_head(block, c->peer_frame_max);
        char *room = conn_out_room(c->conn, FRAME_HEAD_SIZE);
        block = str_skip(block, part.len);
        frame_put(room, (uint32_t) part.len, type,
                  (uint8_t) (flags | (block.len == 0 ? FLAG_END_HEADERS : 0)), stream->id);
        conn_out_commit(c->conn, FRAME_HEAD_SIZE);
        conn_write(c->conn, part);
        stream->given += FRAME_HEAD_SIZE + part.len;
        type = FRAME_CONTINUATION;
        flags = 0;
    } while (block.len != 0);
}

/* May the body that a handler gave whole leave with the head? */
static bool takes_whole(const struct v2_stream *stream)
{
    const struct request *request = stream->request;
    const struct response *response = &request->response;
    size_t size = response->whole.len;

    return size != 0 && response->filters == NULL && !response->is_header_only &&
           request->limit_rate == 0 && size <= COPY_MAX &&
           response->content_length == (int64_t) size && response->trailers == NULL &&
           stream->send_window >= (int64_t) size &&
           stream->connection->send_window >= (int64_t) size &&
           size <= v2_chunk_size(request);
}

static void v2_send_head(struct request *request)
{
    struct v2_stream *stream = request->wire_state;
    struct v2_connection *c = stream->connection;
    struct response *response = &request->response;

    response->is_head_sent = true;
    if (request->method == METHOD_HEAD || response->status == 304 || response->status == 204) {
        response->is_header_only = true;
    }
    if (stream->is_reset || c->conn->is_broken) {
        return;
    }
    bool is_last = response->is_header_only ||
                   (response->content_length == 0 && response->trailers == NULL &&
                    !response->is_tunnel);
    size_t size = head_room(request);
    if (size + FRAME_HEAD_SIZE * 2 + COPY_MAX > OUT_CHUNK_SIZE) {
        char *room = arena_text(&request->arena, size);
        write_block(stream, str_from(room, put_head(room, stream)), is_last);
        request->out_head_end = stream->given;
    } else {
        bool is_whole = takes_whole(stream);
        char *room = conn_out_room(c->conn, size + FRAME_HEAD_SIZE * 2 +
                                                (is_whole ? response->whole.len : 0));
        char *end = put_head(room + FRAME_HEAD_SIZE, stream);
        uint32_t length = (uint32_t) (end - room - FRAME_HEAD_SIZE);
        frame_put(room, length, FRAME_HEADERS,
                  FLAG_END_HEADERS | (is_last ? FLAG_END_STREAM : 0), stream->id);
        stream->given += FRAME_HEAD_SIZE + length;
        request->out_head_end = stream->given;
        if (is_whole) {
            struct str whole = response->whole;
            end = frame_put(end, (uint32_t) whole.len, FRAME_DATA, FLAG_END_STREAM, stream->id);
            memcpy(end, whole.data, whole.len);
            end += whole.len;
            v2_spend(stream, whole.len, false);
            response->body_sent = whole.len;
            response->is_complete = true;
            is_last = true;
        }
        conn_out_commit(c->conn, (size_t) (end - room));
    }
    request->out_sent = stream->given;
    stream->is_output_ended = is_last;
    v2_settle_later(c);
}

static void v2_send_interim(struct request *request, unsigned status, const struct fields *fields)
{
    struct v2_stream *stream = request->wire_state;
    struct v2_connection *c = stream->connection;
    size_t size = 64;

    if (stream->is_reset || c->conn->is_broken) {
        return;
    }
    if (fields != NULL) {
        fields_each(field, fields) {
            size += hpack_field_room(field->name, field->value);
        }
    }
    char *room = arena_text(&request->arena, size);
    char *at = hpack_put_status(hpack_put_limit(room, &c->encoder), &c->encoder, status);
    if (fields != NULL) {
        fields_each(field, fields) {
            if (!field->is_removed && !is_of_connection(field)) {
                at = hpack_put_field(at, &c->encoder, static_of[field->id], field->name,
                                     field->value, is_worth_indexing(field->id));
            }
        }
    }
    write_block(stream, str_from(room, at), false);
    v2_settle_later(c);
}

/* ---- bodies ---- */

/* The end of the response: trailers, or an empty DATA frame. */
static void put_end(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    struct request *request = stream->request;
    const struct fields *trailers = request->response.trailers;

    stream->is_output_ended = true;
    if (trailers != NULL && trailers->count != 0) {
        size_t size = 16;
        fields_each(field, trailers) {
            size += hpack_field_room(field->name, field->value);
        }
        char *room = arena_text(&request->arena, size);
        char *at = hpack_put_limit(room, &c->encoder);
        fields_each(field, trailers) {
            if (!field->is_removed && !is_of_connection(field)) {
                at = hpack_put_field(at, &c->encoder, static_of[field->id], field->name,
                                     field->value, is_worth_indexing(field->id));
            }
        }
        write_block(stream, str_from(room, at), true);
        request->out_sent = stream->given;
    } else {
        char *room = conn_out_room(c->conn, FRAME_HEAD_SIZE);
        frame_put(room, 0, FRAME_DATA, FLAG_END_STREAM, stream->id);
        conn_out_commit(c->conn, FRAME_HEAD_SIZE);
        v2_spend(stream, 0, false);
    }
}

/* Bytes [from, from + size) of the piece, to `at`. False: a file that has become shorter, or cannot be read. */
static bool copy_part(struct request *request, const struct body_piece *piece, uint64_t from,
                      size_t size, char *at)
{
    if (piece->bytes.data != NULL) {
        memcpy(at, piece->bytes.data + from, size);
        return true;
    }
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(piece->fd, at + done, size - done, piece->offset + (off_t) (from + done));
        if (n > 0) {
            done += (size_t) n;
        } else if (n == 0 || errno != EINTR) {
            request->log.action = "sending response to client";
            log_alert(&request->log, n == 0 ? 0 : errno, "file was truncated at %llu",
                      (unsigned long long) (from + done));
            return false;
        }
    }
    return true;
}

/* Less room than this in the last chunk of the queue, and a fresh one is taken. */
#define ROOM_MIN 2048

/* One DATA frame; gives its size, 0: the stream is over. MAY WAIT. */
static size_t put_frame(struct v2_stream *stream, const struct body_piece *piece, uint64_t from,
                        uint64_t left, bool ends_stream)
{
    struct conn *conn = stream->connection->conn;
    struct request *request = stream->request;
    uint64_t chunk = v2_chunk_size(request);
    size_t size = v2_grant(stream, left < chunk ? left : chunk);

    if (size == 0) {
        return 0;
    }
    bool is_tiny = size < 64 && size < left;
    size_t room_left = (size_t) (conn->out_end - conn->out_at);
    if (conn->out_at == NULL || room_left < ROOM_MIN) {
        room_left = OUT_CHUNK_SIZE;
    }
    if (size + FRAME_HEAD_SIZE >= room_left) {
        size = room_left - FRAME_HEAD_SIZE - 1;
    }
    char *room = conn_out_room(conn, size + FRAME_HEAD_SIZE);
    if (!copy_part(request, piece, from, size, room + FRAME_HEAD_SIZE)) {
        return 0;
    }
    bool is_last = ends_stream && size == left;
    frame_put(room, (uint32_t) size, FRAME_DATA, is_last ? FLAG_END_STREAM : 0, stream->id);
    conn_out_commit(conn, size + FRAME_HEAD_SIZE);
    v2_spend(stream, size, is_tiny);
    if (is_last) {
        stream->is_output_ended = true;
    }
    return size;
}

static void drop_piece(const struct body_piece *piece)
{
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
}

static bool v2_send_body(struct request *request, const struct body_piece *piece, bool is_last)
{
    struct v2_stream *stream = request->wire_state;
    struct v2_connection *c = stream->connection;
    struct response *response = &request->response;
    uint64_t size = piece == NULL ? 0 : piece->bytes.data != NULL ? piece->bytes.len : piece->size;
    bool ends_stream =
        is_last && (response->trailers == NULL || response->trailers->count == 0);

    if (stream->is_output_ended) {
        size = 0; /* no body was announced */
    }
    for (uint64_t done = 0; done < size;) {
        size_t n = put_frame(stream, piece, done, size - done, ends_stream);
        if (n == 0) {
            drop_piece(piece);
            return false;
        }
        done += n;
    }
    drop_piece(piece);
    response->body_sent += size;
    stream->stalled_until_ms = 0;
    if (stream->is_reset || c->conn->is_broken) {
        return false;
    }
    if (is_last) {
        if (!stream->is_output_ended) {
            put_end(stream);
        }
        response->is_complete = true;
    }
    /* What was given leaves at the end of this turn, with what others give. */
    v2_settle_later(c);
    return true;
}

static uint64_t v2_backlog(const struct request *request)
{
    const struct v2_stream *stream = request->wire_state;

    return stream->is_window_waited || stream->is_turn_waited ? UINT64_MAX
                                                              : conn_unsent(request->conn);
}

const struct http_wire v2_wire = {
    .send_head = v2_send_head,
    .send_body = v2_send_body,
    .send_interim = v2_send_interim,
    .read_body = v2_read_body,
    .ended = v2_request_ended,
    .backlog = v2_backlog,
};

/* ---- frames of the connection ---- */

void v2_put_settings(struct v2_connection *c)
{
    const struct head_limits *limits = &c->http->listen->default_server->head_limits;
    const struct {
        uint16_t id;
        uint32_t value;
    } ours[] = {
        {SETTING_MAX_CONCURRENT_STREAMS, (uint32_t) c->settings->max_streams},
        {SETTING_INITIAL_WINDOW_SIZE, (uint32_t) c->settings->preread_size},
        {SETTING_MAX_HEADER_LIST_SIZE, limits->head_max},
        {SETTING_ENABLE_CONNECT_PROTOCOL, 1},
        {SETTING_NO_RFC7540_PRIORITIES, 1},
    };
    uint32_t count = sizeof(ours) / sizeof(ours[0]);
    char *room = conn_out_room(c->conn, FRAME_HEAD_SIZE + count * 6);
    char *at = frame_put(room, count * 6, FRAME_SETTINGS, 0, 0);

    for (uint32_t i = 0; i < count; i++) {
        at = put_u32(put_u16(at, ours[i].id), ours[i].value);
    }
    conn_out_commit(c->conn, (size_t) (at - room));
}

void v2_put_window(struct v2_connection *c, uint32_t stream, uint32_t by)
{
    char *room = conn_out_room(c->conn, FRAME_HEAD_SIZE + 4);

    put_u32(frame_put(room, 4, FRAME_WINDOW_UPDATE, 0, stream), by);
    conn_out_commit(c->conn, FRAME_HEAD_SIZE + 4);
    v2_settle_later(c);
}
