/* Answers that come by HTTP/2: header blocks as they arrive (RFC 9113, 8.3.2), heads and bodies as
 * they are read. */
#include "http/exchange/h2/h2.h"
#include "http/message/hpack.h"

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

/* False: it is malformed; logged. The table has no room: what was sent before does not matter. */
static bool decode(struct coded_section *section, struct str block)
{
    struct exchange *x = section->x;
    struct hpack_table table;
    struct coded_field field;

    hpack_table_init(&table, 0);
    table.takes_long_padding = true;
    for (;;) {
        switch (hpack_decode(&table, &block, &x->request->arena, UINT32_MAX, &field)) {
        case HPACK_FIELD:
            if (!coded_section_take(section, &field)) {
                return false;
            }
            break;
        case HPACK_END:
            return true;
        case HPACK_BAD:
            exchange_log(x, LOG_ERROR, 0, "upstream sent invalid header");
            return false;
        }
    }
}

void h2_count_own(struct h2_connection *connection, struct exchange *x)
{
    x->attempt->bytes_received += connection->own_received;
    connection->own_received = 0;
}

void h2_take_block(struct h2_stream *stream, struct str block, bool is_end)
{
    struct coded_section section;

    h2_count_own(stream->connection, stream->coded.x);
    if (!coded_section_begin(&section, stream->coded.x, &stream->coded.response, is_end) ||
        !decode(&section, block) || !coded_section_end(&section, &stream->coded.response, is_end)) {
        coded_stream_break(&stream->coded);
    }
}

/* ---- reading ---- */

enum head_result h2_read_head(struct exchange *x)
{
    struct h2_stream *stream = h2_stream_of(x);

    if (stream->coded.is_bad && stream->coded.response.heads == NULL) {
        return HEAD_BAD;
    }
    /* What came whole before the stream broke is passed on, as in nginx. */
    return coded_response_head(x, &stream->coded.response, stream->coded.is_input_ended, HTTP_2);
}

/* The backend may send as much again as was read. */
static void open_window(struct h2_stream *stream)
{
    if (stream->taken < H2_STREAM_WINDOW / 2 || stream->coded.is_input_ended ||
        stream->coded.is_bad || stream->connection->is_bad) {
        return;
    }
    h2_put_number(stream->connection, FRAME_WINDOW_UPDATE, stream->id, stream->taken);
    stream->recv_window += stream->taken;
    stream->taken = 0;
}

enum body_result h2_read_body(struct exchange *x, struct str *data)
{
    struct h2_stream *stream = h2_stream_of(x);
    struct h2_bytes *reading = &stream->reading;

    for (;;) {
        if (stream->coded.is_bad) {
            return BODY_BAD; /* what came with the reset is not given, as in nginx */
        }
        if (stream->arriving.end == 0) {
            return stream->coded.is_input_ended ? coded_response_finish(x, &stream->coded.response)
                                                : BODY_MORE;
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
        return coded_response_data(x, &stream->coded.response, data->len);
    }
}

enum body_result h2_body_ended(struct exchange *x)
{
    const struct conn *conn = x->connection->conn;

    if (h2_stream_of(x)->coded.is_bad) {
        return BODY_BAD;
    }
    if (conn->is_broken) {
        exchange_log(x, LOG_ERROR, conn->error, "recv() failed");
    } else {
        exchange_log(x, LOG_ERROR, 0, "upstream prematurely closed connection");
    }
    return BODY_BAD;
}
