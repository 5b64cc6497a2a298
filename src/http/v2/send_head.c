/* Header blocks of responses: heads, interim responses, trailers. */
#include "base/clock.h"
#include "base/parse.h"
#include "http/request/head_fields.h"
#include "http/request/request.h"
#include "http/routing/response_settings.h"
#include "http/v2/v2.h"

/* A whole body up to this size leaves with its head. */
#define COPY_MAX 4096

/* The names that the server knows: their numbers in HPACK's static table, and which values do not
 * go to the encoder's table (RFC 7541, 7.1.3). */
static const struct hpack_form form_of[FIELD_COUNT] = {
    [FIELD_HOST] = {38, false},
    [FIELD_CONTENT_LENGTH] = {28, false},
    [FIELD_CONTENT_TYPE] = {31, false},
    [FIELD_TRANSFER_ENCODING] = {57, false},
    [FIELD_EXPECT] = {35, false},
    [FIELD_USER_AGENT] = {58, false},
    [FIELD_REFERER] = {51, false},
    [FIELD_IF_MODIFIED_SINCE] = {40, false},
    [FIELD_IF_UNMODIFIED_SINCE] = {43, false},
    [FIELD_IF_MATCH] = {39, false},
    [FIELD_IF_NONE_MATCH] = {41, false},
    [FIELD_IF_RANGE] = {42, false},
    [FIELD_RANGE] = {50, false},
    [FIELD_ACCEPT_ENCODING] = {16, false},
    [FIELD_AUTHORIZATION] = {23, true},
    [FIELD_COOKIE] = {32, false},
    [FIELD_VIA] = {60, false},
    [FIELD_SERVER] = {54, false},
    [FIELD_DATE] = {33, false},
    [FIELD_LOCATION] = {46, true},
    [FIELD_LAST_MODIFIED] = {44, false},
    [FIELD_ETAG] = {34, false},
    [FIELD_ACCEPT_RANGES] = {18, false},
    [FIELD_CONTENT_RANGE] = {30, true},
    [FIELD_CONTENT_ENCODING] = {26, false},
    [FIELD_CACHE_CONTROL] = {24, false},
    [FIELD_EXPIRES] = {36, false},
    [FIELD_LINK] = {45, false},
    [FIELD_VARY] = {59, false},
    [FIELD_WWW_AUTHENTICATE] = {61, false},
    [FIELD_SET_COOKIE] = {55, true},
    [FIELD_REFRESH] = {52, false},
};

/* ---- heads ---- */

static size_t head_room(const struct request *request)
{
    const struct response *response = &request->response;
    size_t size = 512 + request->location->responses->server_text.len + response->content_type.len +
                  response->charset.len + response->etag.len + response->location.len;

    fields_each(field, &response->fields) {
        size += hpack_field_room(field->name, field->value);
    }
    return size;
}

/* Text that stays the same over responses: most often its number in the table is known. */
static char *put_server(char *at, struct v2_connection *c, struct str text)
{
    if (text.len == 0) {
        return at; /* server_tag off */
    }
    if (c->server_text == text.data) {
        char *end = hpack_put_number(at, &c->encoder, c->server_number);
        if (end != NULL) {
            return end;
        }
    }
    unsigned before = c->encoder.first;
    at = hpack_put_field(at, &c->encoder, (struct hpack_form){.static_index = 54}, STR("server"),
                         text);
    c->server_text = text.data;
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
    at = hpack_put_field(at, &c->encoder, (struct hpack_form){.static_index = 33}, STR("date"),
                         CLOCK_STR(http_date));
    c->date_second = clock_now.seconds;
    c->date_number = c->encoder.first != before ? c->encoder.first : 0;
    return at;
}

static char *put_known(char *at, struct v2_connection *c, enum field_id id, struct str value)
{
    return hpack_put_field(at, &c->encoder, form_of[id], field_names[id], value);
}

static char *put_content_type(char *at, struct v2_connection *c, struct request *request)
{
    const struct response *response = &request->response;
    struct str type = response->content_type;

    if (type.len == 0 || response->status == 204) {
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

    if (response->content_length < 0 || response->framing == FRAMING_TUNNEL ||
        (response->status == 204 && !(response->is_length_set && response->content_length == 0))) {
        return at;
    }
    char *end = format_uint(digits, (uint64_t) response->content_length);
    return hpack_put_field(at, &c->encoder, (struct hpack_form){28, .stays_out = true}, STR_NONE,
                           str_from(digits, end));
}

static char *put_modified(char *at, struct v2_connection *c, const struct response *response)
{
    char date[32];

    if (!response_tells_modified(response)) {
        return at;
    }
    struct str text = response->last_modified_text.len != 0
                          ? response->last_modified_text
                          : str_from(date, http_date_format(date, response->last_modified));
    return put_known(at, c, FIELD_LAST_MODIFIED, text);
}

/* What the response says of its priority goes over what the client said (RFC 9218, 8). */
static void follow_backend(struct v2_stream *stream, struct str value)
{
    uint8_t urgency = stream->urgency;
    bool is_incremental = stream->is_incremental;

    priority_merge(value, &urgency, &is_incremental);
    v2_prioritise(stream, urgency, is_incremental);
}

static char *v2_send_head_put_field(char *at, struct v2_connection *c, const struct field *field)
{
    return hpack_put_field(at, &c->encoder, form_of[field->id], field->name, field->value);
}

/* Those that stand before the ETag. */
static char *put_early(char *at, struct v2_connection *c, const struct response *response)
{
    fields_each(field, &response->fields) {
        if (field->is_early && !field->is_removed) {
            at = v2_send_head_put_field(at, c, field);
        }
    }
    return at;
}

/* The ETag and a late Last-Modified, where they stand before field number `place`. */
static char *put_validators(char *at, struct v2_connection *c, const struct response *response,
                            uint32_t position)
{
    bool has_modified =
        response->order.is_modified_late && response->order.modified_position == position;

    if (has_modified && !response->order.is_etag_first) {
        at = put_modified(at, c, response);
    }
    if (response->etag.len != 0 && response->order.etag_position == position) {
        at = put_known(at, c, FIELD_ETAG, response->etag);
    }
    return has_modified && response->order.is_etag_first ? put_modified(at, c, response) : at;
}

/* All that has no place of its own, in order. */
static char *put_fields(char *at, struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    const struct response *response = &stream->request->response;
    uint32_t position = 0;

    fields_each(field, &response->fields) {
        if (position == response->order.etag_position ||
            position == response->order.modified_position) {
            at = put_validators(at, c, response, position);
        }
        position++;
        if (!field->is_removed && !field->is_early && !field_is_of_connection(field)) {
            if (field->id == FIELD_OTHER && str_equal_nocase(field->name, STR("priority"))) {
                follow_backend(stream, field->value);
            }
            at = v2_send_head_put_field(at, c, field);
        }
    }
    return put_validators(at, c, response, position);
}

/* The header block, in the order that nginx has. */
static char *v2_send_head_put_head(char *at, struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    struct request *request = stream->request;
    const struct response *response = &request->response;
    uint64_t left_out = response->order.left_out;

    at = hpack_put_limit(at, &c->encoder);
    at = hpack_put_status(at, &c->encoder, response->status);
    if ((left_out & FIELD_BIT(FIELD_SERVER)) == 0 &&
        fields_get(&response->fields, FIELD_SERVER) == NULL) {
        at = put_server(at, c, request->location->responses->server_text);
    }
    if ((left_out & FIELD_BIT(FIELD_DATE)) == 0 &&
        fields_get(&response->fields, FIELD_DATE) == NULL) {
        at = put_date(at, c);
    }
    at = put_content_type(at, c, request);
    at = put_length(at, c, response);
    if (!response->order.is_modified_late) {
        at = put_modified(at, c, response);
    }
    if (response->location.len != 0) {
        at = put_known(at, c, FIELD_LOCATION, response->location);
    }
    if (response->order.has_early_field) {
        at = put_early(at, c, response);
    }
    return put_fields(at, stream);
}

/* A block that lies in memory, in HEADERS and as many CONTINUATIONs as it needs. */
static void write_block(struct v2_stream *stream, struct str block, bool is_last)
{
    struct v2_connection *c = stream->connection;
    uint8_t flags = is_last ? FLAG_END_STREAM : 0;
    uint8_t type = FRAME_HEADERS;

    do {
        struct str part = str_head(block, c->peer_frame_max);
        char *buffer = conn_out_room(c->conn, FRAME_HEAD_SIZE);
        block = str_skip(block, part.len);
        frame_put(buffer, (uint32_t) part.len, type,
                  (uint8_t) (flags | (block.len == 0 ? FLAG_END_HEADERS : 0)), stream->id);
        conn_out_commit(c->conn, FRAME_HEAD_SIZE);
        conn_write(c->conn, part);
        stream->given += FRAME_HEAD_SIZE + part.len;
        stream->request->delivery.head_end += FRAME_HEAD_SIZE + part.len;
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
           request->delivery.limit_rate == 0 && size <= COPY_MAX &&
           response->content_length == (int64_t) size && response->trailers == NULL &&
           stream->send_window >= (int64_t) size &&
           stream->connection->send_window >= (int64_t) size &&
           size <= v2_chunk_size(request->location);
}

void v2_send_head(struct request *request)
{
    struct v2_stream *stream = request->wire_state;
    struct v2_connection *c = stream->connection;
    struct response *response = &request->response;
    bool is_last = head_begin(request, stream->is_websocket);

    if (stream->reset != V2_NOT_RESET || c->conn->is_broken) {
        return;
    }
    size_t size = head_room(request);
    if (size + FRAME_HEAD_SIZE * 2 + COPY_MAX > OUT_CHUNK_SIZE) {
        char *buffer = arena_text(&request->arena, size);
        write_block(stream, str_from(buffer, v2_send_head_put_head(buffer, stream)), is_last);
    } else {
        bool is_whole = takes_whole(stream);
        char *buffer = conn_out_room(c->conn, size + FRAME_HEAD_SIZE * 2 +
                                                  (is_whole ? response->whole.len : 0));
        char *end = v2_send_head_put_head(buffer + FRAME_HEAD_SIZE, stream);
        uint32_t length = (uint32_t) (end - buffer - FRAME_HEAD_SIZE);
        frame_put(buffer, length, FRAME_HEADERS, FLAG_END_HEADERS | (is_last ? FLAG_END_STREAM : 0),
                  stream->id);
        stream->given += FRAME_HEAD_SIZE + length;
        request->delivery.head_end = stream->given;
        if (is_whole) {
            struct str whole = response->whole;
            end = frame_put(end, (uint32_t) whole.len, FRAME_DATA, FLAG_END_STREAM, stream->id);
            memcpy(end, whole.data, whole.len);
            end += whole.len;
            v2_spend(stream, whole.len, 1, false);
            response->progress = RESPONSE_COMPLETE;
            is_last = true;
        }
        conn_out_commit(c->conn, (size_t) (end - buffer));
    }
    request->delivery.sent = stream->given;
    stream->is_output_ended = is_last;
    v2_settle_later(c);
}

void v2_send_interim(struct request *request, unsigned status, const struct fields *fields)
{
    struct v2_stream *stream = request->wire_state;
    struct v2_connection *c = stream->connection;
    size_t size = 64;

    if (stream->reset != V2_NOT_RESET || c->conn->is_broken) {
        return;
    }
    if (fields != NULL) {
        fields_each(field, fields) {
            size += hpack_field_room(field->name, field->value);
        }
    }
    char *buffer = arena_text(&request->arena, size);
    char *at = hpack_put_status(hpack_put_limit(buffer, &c->encoder), &c->encoder, status);
    if (fields != NULL) {
        fields_each(field, fields) {
            if (!field->is_removed && !field_is_of_connection(field)) {
                at =
                    hpack_put_field(at, &c->encoder, form_of[field->id], field->name, field->value);
            }
        }
    }
    write_block(stream, str_from(buffer, at), false);
    v2_settle_later(c);
}

void v2_send_trailers(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    struct request *request = stream->request;
    const struct fields *trailers = request->response.trailers;
    size_t size = 16;
    fields_each(field, trailers) {
        size += hpack_field_room(field->name, field->value);
    }
    char *buffer = arena_text(&request->arena, size);
    char *at = hpack_put_limit(buffer, &c->encoder);
    fields_each(field, trailers) {
        if (!field->is_removed && !field_is_of_connection(field)) {
            at = hpack_put_field(at, &c->encoder, form_of[field->id], field->name, field->value);
        }
    }
    write_block(stream, str_from(buffer, at), true);
    request->delivery.sent = stream->given;
}
