/* Field sections of responses: heads, interim responses, trailers. */
#include "http/message/frame.h"
#include "http/request/head_fields.h"
#include "http/request/request.h"
#include "http/v3/v3.h"

#define FIELD_OVERHEAD 24 /* bytes of a field beside its name and value: as qpack_field_room */

/* A section that is being written. */
struct section_encoder {
    struct head_encoder base; /* first: it is found by this */
    struct qpack_writer writer;
};

static void v3_send_head_put_field(struct head_encoder *encoder, struct str name, struct str value,
                                   bool stays_out)
{
    struct section_encoder *section = container_of(encoder, struct section_encoder, base);

    if (name.data == field_names[FIELD_CONTENT_LENGTH].data) {
        qpack_put_length(&section->writer, value);
    } else {
        qpack_put_field(&section->writer, name, value, stays_out);
    }
}

/* Room for a section of so many bytes and the head of its frame, in the request's arena. */
static void section_begin(struct section_encoder *section, struct v3_stream *stream, size_t size)
{
    char *room = arena_text(&stream->request->arena, H3_FRAME_ROOM + QPACK_PREFIX_ROOM + size);

    section->base.put = v3_send_head_put_field;
    qpack_begin(&section->writer, &stream->connection->encoder, stream->id, room + H3_FRAME_ROOM);
}

/* The section as a HEADERS frame, after the instructions that were made with it. */
static void section_send(struct section_encoder *section, struct v3_stream *stream)
{
    struct str block = qpack_finish(&section->writer);
    char head[H3_FRAME_ROOM];
    size_t head_size = (size_t) (h3_put_frame(head, H3_HEADERS, block.len) - head);
    char *frame = (char *) block.data - head_size;

    v3_send_instructions(stream->connection);
    memcpy(frame, head, head_size);
    quic_stream_write(stream->quic, (struct str){frame, head_size + block.len});
    stream->given += head_size + block.len;
    stream->request->delivery.head_end += head_size + block.len;
    stream->request->delivery.sent = stream->given;
}

/* What the response says of its priority overrides what the client said (RFC 9218, 8). */
static void follow_backend(struct v3_stream *stream)
{
    const struct field *field = fields_find(&stream->request->response.fields, STR("priority"));
    uint8_t urgency = stream->urgency;
    bool is_incremental = stream->is_incremental;

    if (field != NULL && !field->is_removed) {
        priority_merge(field->value, &urgency, &is_incremental);
        v3_prioritise(stream, urgency, is_incremental);
    }
}

void v3_send_head(struct request *request)
{
    struct v3_stream *stream = request->wire_state;
    struct section_encoder section;
    bool is_last = head_begin(request, stream->is_websocket);

    if (stream->is_reset) {
        return;
    }
    follow_backend(stream);
    section_begin(&section, stream, head_fields_size(request, FIELD_OVERHEAD));
    qpack_put_status(&section.writer, request->response.status);
    head_fields_put(request, &section.base);
    section_send(&section, stream);
    if (is_last) {
        stream->is_output_ended = true;
        quic_stream_finish(stream->quic);
    }
}

void v3_send_interim(struct request *request, unsigned status, const struct fields *fields)
{
    struct v3_stream *stream = request->wire_state;
    struct section_encoder section;

    if (stream->is_reset) {
        return;
    }
    section_begin(&section, stream,
                  FIELD_OVERHEAD +
                      (fields == NULL ? 0 : head_fields_list_size(fields, FIELD_OVERHEAD)));
    qpack_put_status(&section.writer, status);
    if (fields != NULL) {
        head_fields_put_list(fields, &section.base);
    }
    section_send(&section, stream);
}

void v3_send_trailers(struct v3_stream *stream)
{
    const struct fields *trailers = stream->request->response.trailers;
    struct section_encoder section;

    section_begin(&section, stream, head_fields_list_size(trailers, FIELD_OVERHEAD));
    head_fields_put_list(trailers, &section.base);
    section_send(&section, stream);
}
