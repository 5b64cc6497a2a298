/* Requests by HTTP/3: heads as field sections, bodies in DATA frames. */
#include "http/exchange/h3/h3.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fatal.h"

/* ---- heads ---- */

/* The host of the target, or what *_set_header says instead: servers of HTTP/3 want it here (RFC
 * 9114, 4.3.1). */
static struct str authority_of(const struct head_draft *draft, struct coded_request_fields fields)
{
    struct str name, value;
    enum field_id id;

    while (draft->has_own_host && coded_request_next(&fields, &id, &name, &value)) {
        if (id == FIELD_HOST) {
            return value;
        }
    }
    return draft->has_own_host ? STR_NONE : draft->host;
}

/*
 * Nothing is put in the backend's table: a section means the same on any connection. A line's field
 * may be one of credentials, so none is offered to the table.
 */
void h3_request_make(struct exchange *x, const struct coded_request *sent_request,
                     struct head_draft *draft)
{
    static struct qpack_encoder none; /* without a table */
    struct request *request = x->request;
    struct h3_stream *stream = arena_new(&request->arena, struct h3_stream);
    struct coded_request_fields fields;
    struct qpack_writer writer;
    struct str name, value;
    enum field_id id;
    size_t lines;

    coded_stream_make(&stream->coded, x, sent_request);
    list_init(&stream->link);
    if (h3_is_hq(x)) {
        const struct str parts[] = {STR("GET "), sent_request->path, STR("\r\n")};
        x->head = arena_join(&request->arena, parts, 3);
        return;
    }
    size_t size = coded_request_begin(x, sent_request, draft, &fields, &lines);
    /* A line has four bytes that are not name or value. */
    size_t room = QPACK_PREFIX_ROOM + size + lines * 24 + sent_request->method.len +
                  sent_request->path.len + draft->host.len + 4 * 40;
    qpack_begin(&writer, &none, 0, arena_text(&request->arena, room));
    qpack_put_field(&writer, STR(":method"), sent_request->method, true);
    qpack_put_field(&writer, STR(":scheme"), STR("https"), true);
    qpack_put_field(&writer, STR(":path"), sent_request->path, true);
    struct str authority = authority_of(draft, fields);
    if (authority.len != 0) {
        qpack_put_field(&writer, STR(":authority"), authority, true);
    }
    while (coded_request_next(&fields, &id, &name, &value)) {
        if (id != FIELD_HOST) {
            qpack_put_field(&writer, name, value, true);
        }
    }
    x->head = qpack_finish(&writer);
}

static void write_bytes(struct h3_stream *stream, struct str bytes)
{
    quic_stream_write(stream->quic, bytes);
    stream->written += bytes.len;
}

static void write_frame_head(struct h3_stream *stream, uint64_t type, uint64_t length)
{
    char head[H3_FRAME_ROOM];

    write_bytes(stream, str_from(head, h3_put_frame(head, type, length)));
}

static void finish(struct h3_stream *stream)
{
    quic_stream_finish(stream->quic);
    stream->coded.is_output_ended = true;
}

void h3_send_head(struct exchange *x)
{
    struct h3_stream *stream = h3_stream_of(x);
    bool has_body = x->body_mode == SENT_BODY_STREAMED || sent_body_length(x) != 0;

    if (stream->quic == NULL) {
        return; /* it closed at once; the exchange finds out */
    }
    if (!h3_is_hq(x)) {
        write_frame_head(stream, H3_HEADERS, x->head.len);
    }
    write_bytes(stream, x->head);
    if (!has_body || h3_is_hq(x)) {
        finish(stream);
    }
}

/* ---- bodies ---- */

uint64_t h3_stream_unsent(const struct h3_stream *stream)
{
    return stream->bytes.len + (stream->quic == NULL ? 0 : quic_stream_unsent(stream->quic));
}

bool h3_stream_is_full(const struct h3_stream *stream)
{
    return stream->bytes.len != 0 ||
           (stream->quic != NULL && quic_stream_unsent(stream->quic) >= H3_UNSENT_MAX);
}

void h3_stream_pump(struct h3_stream *stream)
{
    uint64_t unsent = quic_stream_unsent(stream->quic);

    if (stream->bytes.len != 0 && unsent < H3_UNSENT_MAX) {
        struct str part = str_head(stream->bytes, (size_t) (H3_UNSENT_MAX - unsent));

        write_bytes(stream, part);
        stream->bytes = str_skip(stream->bytes, part.len);
    }
    if (stream->bytes.len != 0) {
        quic_stream_want_writable(stream->quic, H3_UNSENT_MAX / 2);
    } else if (stream->coded.is_all_given && !stream->coded.is_output_ended) {
        finish(stream);
    }
}

void h3_stream_drop_body(struct h3_stream *stream)
{
    stream->coded.is_output_ended = true;
    stream->bytes = STR_NONE;
    wait_signal_later(&stream->coded.room);
}

/* A file that is sent stays open until all of it was acknowledged, which may be later than the
 * request. */
static void close_file(void *arg)
{
    close((int) (intptr_t) arg);
}

static void write_file(struct h3_stream *stream, const struct body_piece *piece)
{
    int fd = fcntl(piece->fd, F_DUPFD_CLOEXEC, 0);
    const struct file_range range = {piece->offset, piece->size};

    if (fd == -1) {
        exchange_log(stream->coded.x, LOG_CRIT, errno, "dup() of a request body failed");
        coded_stream_fail(&stream->coded, "request body could not be sent");
        return;
    }
    quic_stream_write_file(stream->quic, fd, range, close_file, (void *) (intptr_t) fd);
    stream->written += piece->size;
}

void h3_send_body(struct exchange *x, const struct body_piece *piece, bool is_last)
{
    struct h3_stream *stream = h3_stream_of(x);

    if (stream->coded.is_output_ended || stream->quic == NULL) {
        return;
    }
    stream->coded.is_all_given = is_last;
    if (piece != NULL) {
        uint64_t size = piece->bytes.data != NULL ? piece->bytes.len : piece->size;

        if (size != 0) {
            write_frame_head(stream, H3_DATA, size);
        }
        if (piece->bytes.data == NULL) {
            write_file(stream, piece);
        } else if (piece->is_volatile) {
            write_bytes(stream, piece->bytes);
        } else {
            stream->bytes = piece->bytes;
        }
    }
    if (!stream->coded.is_bad) {
        h3_stream_pump(stream);
    }
}
