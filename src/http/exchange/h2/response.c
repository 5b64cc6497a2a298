/* Answers that come by HTTP/2: header blocks as they arrive (RFC 9113, 8.3.2), heads and bodies as they are read. */
#include "http/exchange/heads/response_head.h"
#include "http/exchange/h2/h2.h"
#include "http/message/hpack.h"

/* Heads of one response, interim ones and the last: above what an exchange lets pass (INTERIM_MAX). */
#define HEADS_MAX 40

/* ---- bytes ---- */

#define BYTES_MIN 512

void h2_bytes_free(struct h2_bytes *bytes)
{
    if (bytes->data != NULL) {
        conn_buffer_free(bytes->data, bytes->size);
    }
    *bytes = (struct h2_bytes){0};
}

void h2_bytes_add(struct h2_bytes *bytes, struct str data)
{
    size_t wanted = bytes->end + data.len;

    if (bytes->data == NULL || wanted > bytes->size) {
        uint32_t size = bytes->size == 0 ? BYTES_MIN : bytes->size;
        while (size < wanted) {
            size *= 2;
        }
        char *bigger = conn_buffer_alloc(size);
        if (bytes->data != NULL) {
            memcpy(bigger, bytes->data, bytes->end);
            conn_buffer_free(bytes->data, bytes->size);
        }
        bytes->data = bigger;
        bytes->size = size;
    }
    memcpy(bytes->data + bytes->end, data.data, data.len);
    bytes->end += (uint32_t) data.len;
}

/* ---- header blocks ---- */

/* A block that is being decoded. */
struct h2_decoding {
    struct h2_stream *stream;
    struct fields *fields; /* where they go */
    unsigned status;       /* 0 = not known yet */
    bool has_status_place; /* a head, not trailers */
    bool has_regular;      /* a field that is not :status came */
    size_t size;           /* bytes of names and values */
};

/* Lower case token characters (RFC 9113, 8.2.1). */
static bool h2_answer_is_name(struct str name)
{
    static const char others[] = "!#$%&'*+.^_`|~";

    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char) name.data[i];
        if (!((c >= 'a' && c <= 'z') || c == '-' || ascii_is_digit(c)) &&
            (c == '\0' || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return name.len != 0;
}

static bool take_pseudo(struct h2_decoding *decoding, const struct coded_field *field)
{
    struct h2_stream *stream = decoding->stream;
    struct str value = field->value;

    if (!str_is(field->name, ":status") || !decoding->has_status_place || decoding->has_regular) {
        h2_stream_fail(stream, "upstream sent invalid header \"%.*s: %.*s\"", STR_ARG(field->name),
                       STR_ARG(value));
        return false;
    }
    if (decoding->status != 0) {
        h2_stream_fail(stream, "upstream sent duplicate :status header");
        return false;
    }
    bool is_number = value.len == 3 && value.data[0] >= '1' && value.data[0] <= '9' &&
                     ascii_is_digit((unsigned char) value.data[1]) &&
                     ascii_is_digit((unsigned char) value.data[2]);
    if (is_number) {
        decoding->status = (unsigned) ((value.data[0] - '0') * 100 + (value.data[1] - '0') * 10 +
                                       (value.data[2] - '0'));
    }
    if (!is_number || decoding->status == 101) {
        h2_stream_fail(stream, "upstream sent invalid :status \"%.*s\"", STR_ARG(value));
        return false;
    }
    return true;
}

/* Of the connection alone (8.2.2): they mean nothing here, and do not go further. */
static bool is_of_connection(enum field_id id, struct str name)
{
    return (FIELD_BIT(id) & FIELDS_OF_CONNECTION) != 0 ||
           (id == FIELD_OTHER && str_is(name, "proxy-connection"));
}

static bool h2_answer_take_field(struct h2_decoding *decoding, const struct coded_field *field)
{
    struct h2_stream *stream = decoding->stream;
    struct exchange *x = stream->x;

    decoding->size += field->name.len + field->value.len;
    if (decoding->size > x->settings->buffer_size) {
        h2_stream_fail(stream, "upstream sent too big header");
        return false;
    }
    if (field->name.len != 0 && field->name.data[0] == ':') {
        return take_pseudo(decoding, field);
    }
    decoding->has_regular = true;
    if (!h2_answer_is_name(field->name) || !field_value_is_sound(field->value)) {
        h2_stream_fail(stream, "upstream sent invalid header: \"%.*s: %.*s\"", STR_ARG(field->name),
                       STR_ARG(field->value));
        return false;
    }
    enum field_id id = field_identify(field->name);
    bool has_place = decoding->has_status_place || (FIELD_BIT(id) & FIELDS_NOT_IN_TRAILERS) == 0;
    if (has_place && !is_of_connection(id, field->name)) {
        /* Blanks around a value, which may not be there (8.2.1), go as they do with HTTP/1. */
        fields_add_identified(decoding->fields, &x->request->arena, id, field->name,
                              str_trim(field->value));
    }
    return true;
}

/* False: the stream has failed. The table has no room: what was sent before does not matter. */
static bool h2_answer_decode(struct h2_decoding *decoding, struct str block)
{
    struct h2_stream *stream = decoding->stream;
    struct hpack_table table;
    struct coded_field field;

    hpack_table_init(&table, 0);
    table.takes_long_padding = true;
    for (;;) {
        switch (hpack_decode(&table, &block, &stream->x->request->arena, UINT32_MAX, &field)) {
        case HPACK_FIELD:
            if (!h2_answer_take_field(decoding, &field)) {
                return false;
            }
            break;
        case HPACK_END:
            return true;
        case HPACK_BAD:
            h2_stream_fail(stream, "upstream sent invalid header");
            return false;
        }
    }
}

static void take_trailers(struct h2_stream *stream, struct str block, bool is_end)
{
    struct fields *fields = arena_new(&stream->x->request->arena, struct fields);
    struct h2_decoding decoding = {.stream = stream, .fields = fields};

    if (!is_end) {
        h2_stream_fail(stream, "upstream sent trailer without end stream flag");
        return;
    }
    if (!h2_answer_decode(&decoding, block)) {
        return;
    }
    stream->trailers = fields;
}

void h2_take_block(struct h2_stream *stream, struct str block, bool is_end)
{
    if (stream->has_final) {
        take_trailers(stream, block, is_end);
        return;
    }
    struct h2_head *head = arena_new(&stream->x->request->arena, struct h2_head);
    struct h2_decoding decoding = {.stream = stream,
                                   .fields = &head->fields,
                                   .has_status_place = true};
    if (!h2_answer_decode(&decoding, block)) {
        return;
    }
    if (decoding.status == 0) {
        h2_stream_fail(stream, "upstream sent no :status header");
        return;
    }
    if (++stream->head_count > HEADS_MAX) {
        h2_stream_fail(stream, "upstream sent too many interim responses");
        return;
    }
    head->status = decoding.status;
    head->is_end = is_end;
    if (stream->last_head == NULL) {
        stream->heads = head;
    } else {
        stream->last_head->next = head;
    }
    stream->last_head = head;
    stream->has_final = head->status >= 200;
}

/* ---- reading ---- */

enum head_result h2_read_head(struct exchange *x)
{
    struct h2_stream *stream = h2_stream_of(x);
    struct upstream_response *response = &x->response;
    struct h2_head *head = stream->heads;

    if (stream->is_bad) {
        return HEAD_BAD;
    }
    if (head == NULL) {
        if (!stream->is_input_ended) {
            return HEAD_MORE;
        }
        exchange_log(x, LOG_ERROR, 0, "upstream prematurely closed stream");
        return HEAD_BAD;
    }
    stream->heads = head->next;
    if (stream->heads == NULL) {
        stream->last_head = NULL;
    }
    response->status = head->status;
    response->version = HTTP_2;
    response->fields = head->fields;
    if (!upstream_response_check_fields(x)) {
        return HEAD_BAD;
    }
    response->has_no_body =
        head->status < 200 || head->status == 204 || head->status == 304 || stream->is_head;
    response->may_have_trailers = stream->sent_request.keeps_trailers && !head->is_end;
    if (head->is_end && response->content_length < 0 && !response->has_no_body) {
        response->content_length = 0; /* so that the client hears of the end with the head, too */
    }
    return HEAD_DONE;
}

/* The backend may send as much again as was read. */
static void open_window(struct h2_stream *stream)
{
    if (stream->taken < H2_STREAM_WINDOW / 2 || stream->is_input_ended ||
        stream->connection->is_bad) {
        return;
    }
    h2_put_number(stream->connection, FRAME_WINDOW_UPDATE, stream->id, stream->taken);
    stream->recv_window += stream->taken;
    stream->taken = 0;
}

static enum body_result stream_finish(struct exchange *x, struct h2_stream *stream)
{
    const struct upstream_response *response = &x->response;

    if (!response->has_no_body && response->content_length > (int64_t) stream->given) {
        exchange_log(x, LOG_ERROR, 0, "upstream prematurely closed stream");
        return BODY_BAD;
    }
    if (stream->trailers != NULL && stream->sent_request.keeps_trailers) {
        x->response.trailers = stream->trailers;
    }
    x->is_reusable = true;
    return BODY_END;
}

enum body_result h2_read_body(struct exchange *x, struct str *data)
{
    struct h2_stream *stream = h2_stream_of(x);
    struct h2_bytes *reading = &stream->reading;

    for (;;) {
        if (stream->is_bad) {
            return BODY_BAD;
        }
        if (stream->arriving.end == 0) {
            return stream->is_input_ended ? stream_finish(x, stream) : BODY_MORE;
        }
        h2_bytes_free(reading);
        *reading = stream->arriving;
        stream->arriving = (struct h2_bytes){0};
        *data = (struct str){reading->data, reading->end};
        stream->taken += reading->end;
        open_window(stream);
        if (x->response.has_no_body) {
            continue;
        }
        stream->given += data->len;
        if (x->response.content_length >= 0 &&
            (int64_t) stream->given > x->response.content_length) {
            exchange_log(x, LOG_ERROR, 0,
                         "upstream sent response body larger than indicated content length");
            return BODY_BAD;
        }
        return BODY_DATA;
    }
}

enum body_result h2_body_ended(struct exchange *x)
{
    const struct conn *conn = x->connection->conn;

    if (h2_stream_of(x)->is_bad) {
        return BODY_BAD;
    }
    if (conn->is_broken) {
        exchange_log(x, LOG_ERROR, conn->error, "recv() failed");
    } else {
        exchange_log(x, LOG_ERROR, 0, "upstream prematurely closed connection");
    }
    return BODY_BAD;
}
