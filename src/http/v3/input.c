/* Frames of requests, as they come on their streams (RFC 9114, 4.1 and 7.1). */
#include "http/v3/v3.h"

#define TINY_DATA 16 /* bytes of a DATA frame that are counted as few */

/* ---- heads of frames ---- */

/* May a frame of this type follow? False: the connection has failed. */
static bool frame_may_follow(struct v3_stream *stream, uint64_t type)
{
    struct v3_connection *c = stream->connection;
    bool is_message = type == H3_DATA || type == H3_HEADERS;

    if (!h3_frame_is_of_request(type)) {
        v3_fail(c, H3_FRAME_UNEXPECTED, "sent a frame that has no place on a request stream");
    } else if (type == H3_DATA && !stream->has_head) {
        v3_fail(c, H3_FRAME_UNEXPECTED, "sent DATA before HEADERS");
    } else if (is_message && stream->has_trailers) {
        v3_fail(c, H3_FRAME_UNEXPECTED, "sent a frame after the trailers");
    } else if (type == H3_HEADERS && stream->is_websocket) {
        v3_fail(c, H3_FRAME_UNEXPECTED, "sent HEADERS in a tunnel");
    }
    return c->phase < V3_FAILED;
}

/* Counts what costs more here than there. False: the connection has failed. */
static bool frame_is_allowed(struct v3_stream *stream)
{
    struct v3_connection *c = stream->connection;
    const struct h3_input *input = &stream->input;

    if (input->type == H3_DATA && input->left == 0) {
        return v3_guard(c, V3_GUARD_EMPTY);
    }
    if (input->type == H3_DATA && input->left < TINY_DATA) {
        return v3_guard(c, V3_GUARD_TINY);
    }
    return input->type == H3_DATA || input->type == H3_HEADERS || v3_guard(c, V3_GUARD_UNKNOWN);
}

/* Takes the head of a frame. False: it is not whole, or the connection has failed. */
static bool take_frame_head(struct v3_stream *stream)
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
        quic_stream_consume(stream->quic, before - bytes.len);
    } while (!is_whole);
    if (!frame_may_follow(stream, input->type) || !frame_is_allowed(stream)) {
        return false;
    }
    input->part = input->type == H3_DATA      ? H3_PART_DATA
                  : input->type == H3_HEADERS ? H3_PART_HEADERS
                                              : H3_PART_SKIPPED;
    return true;
}

/* ---- payloads ---- */

/* False: more of it has to come. */
static bool skip_payload(struct v3_stream *stream)
{
    struct h3_input *input = &stream->input;

    while (input->left != 0) {
        struct str bytes = quic_stream_input(stream->quic);
        size_t size = input->left < bytes.len ? (size_t) input->left : bytes.len;

        if (size == 0) {
            return false;
        }
        quic_stream_consume(stream->quic, size);
        input->left -= size;
    }
    input->part = H3_PART_FRAME;
    return true;
}

/* Waits for entries of the table. */
static void block_stream(struct v3_stream *stream)
{
    struct v3_connection *c = stream->connection;

    if (c->blocked_count == V3_BLOCKED_MAX) {
        v3_fail(c, QPACK_DECOMPRESSION_FAILED, "sent too many blocked field sections");
        return;
    }
    stream->input.part = H3_PART_BLOCKED;
    list_push_back(&c->blocked, &stream->blocked_node);
    c->blocked_count++;
}

/*
 * Decodes a section, which is in the input of the QUIC stream, and stays there while it is blocked,
 * or was kept. False: nothing more is to be read now.
 */
static bool take_section(struct v3_stream *stream)
{
    struct h3_input *input = &stream->input;
    bool is_kept = input->block != NULL;
    struct str block = is_kept ? (struct str){input->block, input->block_size}
                               : str_head(quic_stream_input(stream->quic), (size_t) input->left);
    enum v3_section result = v3_section_decode(stream, block);

    if (result == V3_SECTION_BLOCKED) {
        block_stream(stream);
    }
    if (result != V3_SECTION_WHOLE) {
        return false;
    }
    if (!is_kept) {
        quic_stream_consume(stream->quic, block.len);
        input->left = 0;
    }
    h3_input_free(input);
    input->part = H3_PART_FRAME;
    v3_section_done(stream);
    return true;
}

/* Collects a field section. False: nothing more is to be read now. */
static bool take_headers(struct v3_stream *stream)
{
    struct h3_input *input = &stream->input;
    size_t most = stream->connection->limits.head_max;

    if (input->left > most) {
        v3_refuse_head(stream, 494, "client sent too large request");
        return false;
    }
    for (;;) {
        struct str bytes = quic_stream_input(stream->quic);

        if (input->block == NULL ? bytes.len >= input->left : input->left == 0) {
            return take_section(stream);
        }
        if (bytes.len == 0) {
            return false;
        }
        bytes = str_head(bytes, (size_t) input->left);
        size_t size = bytes.len;
        h3_input_collect(input, bytes);
        quic_stream_consume(stream->quic, size);
    }
}

void v3_stream_unblocked(struct v3_stream *stream)
{
    struct v3_connection *c = stream->connection;

    list_remove(&stream->blocked_node);
    c->blocked_count--;
    stream->input.part = H3_PART_HEADERS;
    v3_stream_readable(stream);
}

/* ---- HTTP/0.9 ---- */

/* A line is collected up to its end, or that of the stream. */
static void v3_input_read_line(struct v3_stream *stream)
{
    struct h3_input *input = &stream->input;
    size_t most = stream->connection->limits.line_max;
    const char *end = NULL;

    while (end == NULL) {
        struct str bytes = quic_stream_input(stream->quic);
        size_t size = bytes.len;

        if (size == 0) {
            break;
        }
        if (input->block_size + size > most) {
            v3_stream_drop(stream, H3_EXCESSIVE_LOAD);
            return;
        }
        input->left = most;
        h3_input_collect(input, bytes);
        quic_stream_consume(stream->quic, size);
        end = str_find_char((struct str){input->block, input->block_size}, '\n');
    }
    if (end != NULL || stream->quic->is_input_finished) {
        struct str line = {input->block,
                           end != NULL ? (size_t) (end - input->block) : input->block_size};
        stream->is_input_ended = true;
        hq_take_line(stream, line);
    }
}

/* ---- the end ---- */

static void input_finished(struct v3_stream *stream)
{
    struct v3_connection *c = stream->connection;

    if (stream->input.part != H3_PART_FRAME || stream->input.reader.size != 0) {
        v3_fail(c, H3_FRAME_ERROR, "ended a stream inside a frame");
    } else if (!stream->has_head) {
        v3_stream_drop(stream, H3_REQUEST_INCOMPLETE);
        v3_guard(c, V3_GUARD_ERRORS);
    } else {
        v3_body_ended(stream);
    }
}

/* Goes one step. False: nothing more is to be read now. */
static bool read_step(struct v3_stream *stream)
{
    switch (stream->input.part) {
    case H3_PART_FRAME:
        return take_frame_head(stream);
    case H3_PART_HEADERS:
        return take_headers(stream);
    case H3_PART_SKIPPED:
        return skip_payload(stream);
    case H3_PART_DATA:
        if (stream->input.left == 0) {
            stream->input.part = H3_PART_FRAME;
            return true;
        }
        return false;
    default:
        return false;
    }
}

/* Is there still something to be read of it? */
static bool stream_is_read(const struct v3_stream *stream)
{
    return stream->quic != NULL && !stream->is_reset && !stream->is_input_ended &&
           !stream->is_body_broken && stream->connection->phase < V3_FAILED;
}

void v3_stream_read(struct v3_stream *stream)
{
    if (stream->connection->is_hq) {
        if (stream_is_read(stream)) {
            v3_input_read_line(stream);
        }
        return;
    }
    while (stream_is_read(stream) && read_step(stream)) {
    }
    if (stream_is_read(stream) && stream->quic->is_input_finished &&
        stream->input.part != H3_PART_BLOCKED) {
        input_finished(stream);
    }
}
