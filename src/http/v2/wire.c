/* Responses of HTTP/2 on the wire: heads, DATA, trailers, interim responses. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
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
    if (field->id == FIELD_OTHER) {
        return str_equal_nocase(field->name, STR("Proxy-Connection")) ||
               str_equal_nocase(field->name, STR("HTTP2-Settings"));
    }
    return (FIELD_BIT(field->id) & FIELDS_OF_CONNECTION) != 0;
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

/* What the response says of its priority goes over what the client said (RFC 9218, 8). */
static void follow_backend(struct v2_stream *stream, struct str value)
{
    uint8_t urgency = stream->urgency;
    bool is_incremental = stream->is_incremental;

    priority_merge(value, &urgency, &is_incremental);
    v2_prioritise(stream, urgency, is_incremental);
}

static char *put_field(char *at, struct v2_connection *c, const struct field *field)
{
    return hpack_put_field(at, &c->encoder, static_of[field->id], field->name, field->value,
                           is_worth_indexing(field->id));
}

/* Those that stand before the ETag. */
static char *put_early(char *at, struct v2_connection *c, const struct response *response)
{
    fields_each(field, &response->fields) {
        if (field->is_early && !field->is_removed) {
            at = put_field(at, c, field);
        }
    }
    return at;
}

/* The header block, in the order that nginx has. */
static char *put_head(char *at, struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    struct request *request = stream->request;
    const struct response *response = &request->response;
    uint64_t left_out = response->left_out;

    at = hpack_put_limit(at, &c->encoder);
    at = hpack_put_status(at, &c->encoder, status_of(stream));
    if ((left_out & FIELD_BIT(FIELD_SERVER)) == 0 &&
        fields_get(&response->fields, FIELD_SERVER) == NULL) {
        at = put_server(at, c, request->location->server_field);
    }
    if ((left_out & FIELD_BIT(FIELD_DATE)) == 0 &&
        fields_get(&response->fields, FIELD_DATE) == NULL) {
        at = put_date(at, c);
    }
    at = put_content_type(at, c, request);
    at = put_length(at, c, response);
    at = put_modified(at, c, response);
    if (response->location.len != 0) {
        at = put_known(at, c, FIELD_LOCATION, response->location);
    }
    if (response->has_early_field) {
        at = put_early(at, c, response);
    }
    if (response->etag.len != 0) {
        at = put_known(at, c, FIELD_ETAG, response->etag);
    }
    fields_each(field, &response->fields) {
        if (!field->is_removed && !field->is_early && !is_of_connection(field)) {
            if (field->id == FIELD_OTHER && str_equal_nocase(field->name, STR("priority"))) {
                follow_backend(stream, field->value);
            }
            at = put_field(at, c, field);
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
           stream->connection->send_window >= (int64_t) size && size <= v2_chunk_size(request);
}

static void v2_send_head(struct request *request)
{
    struct v2_stream *stream = request->wire_state;
    struct v2_connection *c = stream->connection;
    struct response *response = &request->response;

    response->is_head_sent = true;
    response->status = status_of(stream); /* the log tells what the client is told */
    if (request->method == METHOD_HEAD || response->status == 304 || response->status == 204) {
        response->is_header_only = true;
    }
    if (stream->is_reset || c->conn->is_broken) {
        return;
    }
    bool is_last = response->is_header_only || (response->content_length == 0 &&
                                                response->trailers == NULL && !response->is_tunnel);
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
        frame_put(room, length, FRAME_HEADERS, FLAG_END_HEADERS | (is_last ? FLAG_END_STREAM : 0),
                  stream->id);
        stream->given += FRAME_HEAD_SIZE + length;
        request->out_head_end = stream->given;
        if (is_whole) {
            struct str whole = response->whole;
            end = frame_put(end, (uint32_t) whole.len, FRAME_DATA, FLAG_END_STREAM, stream->id);
            memcpy(end, whole.data, whole.len);
            end += whole.len;
            v2_spend(stream, whole.len, 1, false);
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

void v2_put_end(struct v2_stream *stream)
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
        v2_spend(stream, 0, 1, false);
    }
}

/* DATA frames of memory: head and bytes go where there is room. */
static void put_memory(struct v2_stream *stream, struct str bytes, size_t chunk, bool is_last)
{
    struct conn *conn = stream->connection->conn;

    while (bytes.len != 0) {
        struct str part = str_head(bytes, chunk);
        char *room = conn_out_room(conn, FRAME_HEAD_SIZE);

        bytes = str_skip(bytes, part.len);
        frame_put(room, (uint32_t) part.len, FRAME_DATA,
                  bytes.len == 0 && is_last ? FLAG_END_STREAM : 0, stream->id);
        conn_out_commit(conn, FRAME_HEAD_SIZE);
        conn_write(conn, part);
    }
}

#define BATCH_BYTES                                                                                \
    (64 * 1024) /* of DATA frames that are read from a file at a time, with their heads */
#define BATCH_FRAMES 32

/* Frames of a file, on their way to the socket. */
struct batch {
    char *buffer;
    uint32_t size;
};

static void batch_sent(void *arg)
{
    struct batch *batch = arg;

    conn_buffer_free(batch->buffer, batch->size);
    free(batch);
}

/* Reads into all of these. False: the file has become shorter, or cannot be read. */
static bool read_all(struct request *request, int fd, off_t offset, struct iovec *iov, int count)
{
    while (count != 0) {
        ssize_t n = preadv(fd, iov, count, offset);
        if (n <= 0) {
            if (n < 0 && errno == EINTR) {
                continue;
            }
            request->log.action = "sending response to client";
            log_alert(&request->log, n == 0 ? 0 : errno, "file was truncated at %lld",
                      (long long) offset);
            return false;
        }
        offset += n;
        for (; count != 0 && (size_t) n >= iov->iov_len; iov++, count--) {
            n -= (ssize_t) iov->iov_len;
        }
        if (count != 0) {
            iov->iov_base = (char *) iov->iov_base + n;
            iov->iov_len -= (size_t) n;
        }
    }
    return true;
}

/*
 * DATA frames of a file: many with one read, and the reading is no more than sendfile would do, which would
 * be asked for each frame alone.
 */
static bool put_file(struct v2_stream *stream, const struct body_piece *piece, uint64_t from,
                     size_t size, size_t chunk, bool is_last)
{
    struct conn *conn = stream->connection->conn;
    size_t frames = (size + chunk - 1) / chunk;
    struct batch *batch = malloc(sizeof(*batch));
    struct iovec iov[BATCH_FRAMES];

    if (batch == NULL) {
        fatal_no_memory(sizeof(*batch));
    }
    batch->size = (uint32_t) (size + frames * FRAME_HEAD_SIZE);
    batch->buffer = conn_buffer_alloc(batch->size);
    char *at = batch->buffer;
    size_t left = size;
    for (size_t i = 0; i < frames; i++) {
        size_t part = left < chunk ? left : chunk;
        left -= part;
        at = frame_put(at, (uint32_t) part, FRAME_DATA, left == 0 && is_last ? FLAG_END_STREAM : 0,
                       stream->id);
        iov[i] = (struct iovec){.iov_base = at, .iov_len = part};
        at += part;
    }
    if (!read_all(stream->request, piece->fd, piece->offset + (off_t) from, iov, (int) frames)) {
        batch_sent(batch);
        return false;
    }
    conn_write_reference(conn, (struct str){batch->buffer, batch->size}, batch_sent, batch);
    return true;
}

/* Only one where others wait for their turn. */
size_t v2_put_frames(struct v2_stream *stream, const struct body_piece *piece, uint64_t from,
                     uint64_t left, size_t granted, bool is_last)
{
    struct v2_connection *c = stream->connection;
    const struct fields *trailers = stream->request->response.trailers;
    size_t size = granted < BATCH_BYTES ? granted : BATCH_BYTES;
    uint64_t chunk = v2_chunk_size(stream->request);

    chunk = chunk < c->peer_frame_max ? chunk : c->peer_frame_max;
    chunk = chunk < BATCH_BYTES - FRAME_HEAD_SIZE ? chunk : BATCH_BYTES - FRAME_HEAD_SIZE;
    uint64_t frames = BATCH_BYTES / (chunk + FRAME_HEAD_SIZE);
    frames = c->waiting_count != 0 ? 1 : frames < BATCH_FRAMES ? frames : BATCH_FRAMES;
    size = size < chunk * frames ? size : (size_t) (chunk * frames);
    bool ends_stream = is_last && size == left && (trailers == NULL || trailers->count == 0);
    if (piece->bytes.data != NULL) {
        put_memory(stream, (struct str){piece->bytes.data + from, size}, (size_t) chunk,
                   ends_stream);
    } else if (!put_file(stream, piece, from, size, (size_t) chunk, ends_stream)) {
        return 0;
    }
    stream->is_output_ended = ends_stream;
    v2_spend(stream, size, (size + chunk - 1) / chunk, size < 64 && size < left);
    return size;
}

static void drop_piece(const struct body_piece *piece)
{
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
}

/*
 * The piece to the client, or what is left of it to the stream's tail. MAY WAIT. False: the stream is over. The piece
 * is the tail's then, or released.
 */
static bool give_piece(struct v2_stream *stream, const struct body_piece *piece, uint64_t size,
                       bool is_last)
{
    struct v2_connection *c = stream->connection;

    for (uint64_t done = 0; done < size;) {
        uint64_t left = size - done;
        bool may_hold = v2_tail_may_hold(stream, piece, left, is_last);
        size_t granted = !may_hold               ? v2_grant(stream, left)
                         : v2_tail_waits(stream) ? 0
                                                 : v2_try_grant(stream, left);

        if (stream->is_reset || c->conn->is_broken) {
            granted = 0;
        } else if (granted == 0 && may_hold) {
            v2_tail_hold(stream, piece, done, size);
            return true;
        } else if (granted == 0 && stream->is_leaving && !stream->request->is_timed_out) {
            continue;
        }
        size_t n = granted == 0 ? 0 : v2_put_frames(stream, piece, done, left, granted, is_last);
        if (n == 0) {
            drop_piece(piece);
            return false;
        }
        done += n;
    }
    drop_piece(piece);
    return true;
}

static bool v2_send_body(struct request *request, const struct body_piece *piece, bool is_last)
{
    struct v2_stream *stream = request->wire_state;
    struct v2_connection *c = stream->connection;
    struct response *response = &request->response;
    uint64_t size = piece == NULL ? 0 : piece->bytes.data != NULL ? piece->bytes.len : piece->size;

    if (stream->is_output_ended) {
        size = 0; /* no body was announced */
    }
    if (size == 0) {
        drop_piece(piece);
    } else if (!give_piece(stream, piece, size, is_last)) {
        return false;
    }
    if (stream->is_reset || c->conn->is_broken) {
        return false;
    }
    if (v2_tail_waits(stream)) {
        response->is_complete = is_last;
        if (is_last) {
            v2_tail_end(stream);
        }
        v2_settle_later(c);
        return true;
    }
    stream->stalled_until_ms = 0;
    if (is_last) {
        if (!stream->is_output_ended) {
            v2_put_end(stream);
        }
        response->is_complete = true;
    }
    /* What was given leaves at the end of this turn, with what others give. */
    v2_settle_later(c);
    return true;
}

/* Who gives the body has all of it: nobody waits for the client any more, see tail.c. */
static void v2_leave(struct request *request)
{
    struct v2_stream *stream = request->wire_state;

    if (request->limit_rate == 0 && !request->response.is_tunnel && !stream->is_leaving) {
        stream->is_leaving = true;
        if (stream->output.waiter != NULL) {
            wait_signal_later(&stream->output);
        }
    }
}

static uint64_t v2_backlog(const struct request *request, uint64_t more)
{
    const struct v2_stream *stream = request->wire_state;
    const struct v2_connection *c = stream->connection;
    bool waits = stream->is_window_waited || stream->is_turn_waited ||
                 stream->send_window < (int64_t) more || c->send_window < (int64_t) more;

    return waits ? UINT64_MAX : conn_unsent(request->conn);
}

const struct http_wire v2_wire = {
    .send_head = v2_send_head,
    .send_body = v2_send_body,
    .send_interim = v2_send_interim,
    .read_body = v2_read_body,
    .ended = v2_request_ended,
    .backlog = v2_backlog,
    .leave = v2_leave,
};
