/* Frames of responses, as they come on their streams (RFC 9114, 4.1 and 7.1). */
#include "http/exchange/h3/h3.h"
#include "http/message/prefixed.h"

/* ---- heads of frames ---- */

/* May a frame of this type follow? False: the connection has failed. */
static bool frame_may_follow(struct h3_stream *stream)
{
    struct h3_connection *c = stream->connection;
    const struct h3_input *input = &stream->input;
    bool is_message = input->type == H3_DATA || input->type == H3_HEADERS;

    if (!h3_frame_is_of_request(input->type) ||
        (input->type == H3_DATA && !stream->coded.response.has_final) ||
        (is_message && stream->has_trailers)) {
        h3_connection_fail(c, H3_FRAME_UNEXPECTED, "upstream sent unexpected http3 frame: %llu",
                           (unsigned long long) input->type);
        return false;
    }
    if (input->type == H3_DATA && input->left == 0) {
        return h3_guard(c, H3_GUARD_EMPTY);
    }
    return is_message || h3_guard(c, H3_GUARD_UNKNOWN);
}

static void consume(struct h3_stream *stream, size_t size)
{
    quic_stream_consume(stream->quic, size);
    stream->coded.x->attempt->bytes_received += size;
    stream->coded.has_heard |= size != 0;
}

/* Takes the head of a frame. False: it is not whole, or the connection has failed. */
static bool take_frame_head(struct h3_stream *stream)
{
    struct h3_input *input = &stream->input;
    bool is_whole;

    do {
        struct str bytes = quic_stream_input(stream->quic);
        size_t before = bytes.len;

        if (before == 0) {
            return false;
        }
        is_whole = h3_read_frame(&input->reader, &bytes, &input->type, &input->left);
        consume(stream, before - bytes.len);
    } while (!is_whole);
    if (!frame_may_follow(stream)) {
        return false;
    }
    input->part = input->type == H3_DATA      ? H3_PART_DATA
                  : input->type == H3_HEADERS ? H3_PART_HEADERS
                                              : H3_PART_SKIPPED;
    return true;
}

/* ---- field sections ---- */

/* False: malformed, logged. */
static bool decode_fields(struct h3_stream *stream, struct qpack_section *packed,
                          struct coded_section *section)
{
    struct h3_connection *c = stream->connection;
    struct coded_field field;

    for (;;) {
        switch (qpack_decode(&c->decoder, packed, &stream->coded.x->request->arena, &field)) {
        case QPACK_FIELD:
            if (!coded_section_take(section, &field)) {
                return false;
            }
            break;
        case QPACK_END:
            return true;
        default:
            h3_connection_fail(c, QPACK_DECOMPRESSION_FAILED,
                               "upstream sent a malformed field section");
            return false;
        }
    }
}

static void acknowledge(struct h3_stream *stream, const struct qpack_section *packed)
{
    struct h3_connection *c = stream->connection;
    char instruction[PREFIXED_INTEGER_ROOM];
    char *end = qpack_put_acknowledgment(instruction, &c->decoder, packed, stream->quic->id);

    quic_stream_write(c->decoder_stream, str_from(instruction, end));
}

/* A section is whole. False: nothing more is read. */
static bool take_section(struct h3_stream *stream, struct str block)
{
    struct h3_connection *c = stream->connection;
    struct coded_response *response = &stream->coded.response;
    /* What is too long for the head is found by its size; this bounds what unpacks to more. */
    struct qpack_section packed = {.max_string =
                                       (size_t) stream->coded.x->settings->buffer_size * 4};
    struct coded_section section;
    bool is_trailer = response->has_final;
    bool is_end = is_trailer || stream->quic->is_input_finished;

    if (qpack_section_begin(&c->decoder, block, &packed) != QPACK_FIELD) {
        h3_connection_fail(c, QPACK_DECOMPRESSION_FAILED,
                           "upstream sent a field section that cannot be decoded");
        return false;
    }
    bool is_good = coded_section_begin(&section, stream->coded.x, response, is_end) &&
                   decode_fields(stream, &packed, &section) &&
                   coded_section_end(&section, response, is_end);
    if (!h3_connection_is_sound(c)) {
        return false;
    }
    if (!is_good) {
        coded_stream_break(&stream->coded);
        return false;
    }
    acknowledge(stream, &packed);
    stream->has_trailers = is_trailer;
    return true;
}

/* Collects a field section. False: nothing more is to be read now. */
static bool take_headers(struct h3_stream *stream)
{
    struct h3_input *input = &stream->input;

    /* Packed text is not longer than what it was; each field takes a few bytes more. */
    if (input->left + input->block_size > stream->coded.x->settings->buffer_size * 2 + 1024) {
        coded_stream_fail(&stream->coded, "upstream sent too big header");
        return false;
    }
    while (input->left != 0 || input->block == NULL) {
        struct str bytes = str_head(quic_stream_input(stream->quic), (size_t) input->left);
        size_t size = bytes.len;

        if (size == 0 && input->left != 0) {
            return false;
        }
        h3_input_collect(input, bytes);
        consume(stream, size);
    }
    bool goes_on = take_section(stream, (struct str){input->block, input->block_size});
    h3_input_free(input);
    input->part = H3_PART_FRAME;
    return goes_on;
}

/* ---- the rest ---- */

/* False: more of it has to come. */
static bool skip_payload(struct h3_stream *stream)
{
    struct h3_input *input = &stream->input;

    while (input->left != 0) {
        struct str bytes = quic_stream_input(stream->quic);
        size_t size = input->left < bytes.len ? (size_t) input->left : bytes.len;

        if (size == 0) {
            return false;
        }
        consume(stream, size);
        input->left -= size;
    }
    input->part = H3_PART_FRAME;
    return true;
}

static bool read_step(struct h3_stream *stream)
{
    switch (stream->input.part) {
    case H3_PART_FRAME:
        return take_frame_head(stream);
    case H3_PART_HEADERS:
        return take_headers(stream);
    case H3_PART_SKIPPED:
        return skip_payload(stream);
    default:
        if (stream->input.left == 0) {
            stream->input.part = H3_PART_FRAME;
            return true;
        }
        return false;
    }
}

/* Is there still something to be read of it? */
static bool is_read(const struct h3_stream *stream)
{
    return stream->quic != NULL && !stream->quic->is_input_reset && !stream->coded.is_input_ended &&
           !stream->coded.is_bad && !stream->coded.is_refused &&
           h3_connection_is_sound(stream->connection);
}

static void input_finished(struct h3_stream *stream)
{
    const struct h3_input *input = &stream->input;

    if (!h3_is_hq(stream->coded.x) && (input->part != H3_PART_FRAME || input->reader.size != 0)) {
        h3_connection_fail(stream->connection, H3_FRAME_ERROR,
                           "upstream ended a stream inside a frame");
        return;
    }
    stream->coded.is_input_ended = true;
}

void h3_stream_read(struct h3_stream *stream)
{
    if (h3_is_hq(stream->coded.x)) {
        stream->input.part = H3_PART_DATA; /* all of it is body */
        stream->input.left = UINT64_MAX;
    }
    while (is_read(stream) && read_step(stream)) {
    }
    if (is_read(stream) && quic_stream_input(stream->quic).len == 0 &&
        stream->quic->is_input_finished) {
        input_finished(stream);
    }
}

size_t h3_stream_take(struct h3_stream *stream, char *at, size_t most)
{
    struct h3_input *input = &stream->input;
    size_t size = 0;

    h3_stream_read(stream);
    while (is_read(stream) && input->part == H3_PART_DATA && size < most) {
        struct str bytes = str_head(quic_stream_input(stream->quic), most - size);

        if (bytes.len > input->left) {
            bytes.len = (size_t) input->left;
        }
        if (bytes.len == 0) {
            break;
        }
        memcpy(at + size, bytes.data, bytes.len);
        size += bytes.len;
        input->left -= bytes.len;
        consume(stream, bytes.len);
        h3_stream_read(stream);
    }
    return size;
}

void h3_stream_closed(struct h3_stream *stream)
{
    char part[2048];
    size_t size;

    while ((size = h3_stream_take(stream, part, sizeof(part))) != 0) {
        buf_append(&stream->rest, (struct str){part, size});
    }
    stream->written -= quic_stream_unsent(stream->quic);
    stream->quic = NULL;
    h3_stream_drop_body(stream);
}
