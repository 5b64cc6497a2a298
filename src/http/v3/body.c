/* Request bodies of HTTP/3: read from the QUIC stream as a handler asks for them; what no handler
 * reads keeps the window closed. */
#include "http/request/body.h"
#include "http/v3/v3.h"

/* The body is not what was announced: a handler that reads it gets 400, and the stream ends with an
 * error. */
static void break_body(struct v3_stream *stream)
{
    stream->error = H3_MESSAGE_ERROR;
    stream->is_body_broken = true;
    v3_guard(stream->connection, V3_GUARD_ERRORS);
}

static bool has_announced_length(const struct v3_stream *stream)
{
    return stream->request->incoming.sent_length >= 0 && !stream->is_websocket;
}

void v3_body_ended(struct v3_stream *stream)
{
    stream->is_input_ended = true;
    if (has_announced_length(stream) &&
        stream->body_bytes != (uint64_t) stream->request->incoming.sent_length) {
        log_info(&stream->request->log, 0,
                 "client prematurely closed stream: only %llu out of %lld bytes of request "
                 "body received",
                 (unsigned long long) stream->body_bytes,
                 (long long) stream->request->incoming.sent_length);
        break_body(stream);
    }
}

/* Copies bytes of a DATA frame that are there. */
static size_t take_bytes(struct v3_stream *stream, char *at, size_t size)
{
    struct h3_input *input = &stream->input;
    size_t taken = 0;

    while (taken < size && input->left != 0) {
        struct str bytes = quic_stream_input(stream->quic);
        size_t n = size - taken < bytes.len ? size - taken : bytes.len;

        n = n < input->left ? n : (size_t) input->left;
        if (n == 0) {
            break;
        }
        memcpy(at + taken, bytes.data, n);
        quic_stream_consume(stream->quic, n);
        input->left -= n;
        taken += n;
    }
    return taken;
}

/* As much of the body as there is, over as many frames as it takes. */
static size_t take_body(struct v3_stream *stream, char *at, size_t size)
{
    size_t taken = 0;

    for (;;) {
        v3_stream_read(stream);
        if (stream->quic == NULL || stream->is_reset || stream->is_body_broken ||
            stream->input.part != H3_PART_DATA || taken == size) {
            break;
        }
        size_t n = take_bytes(stream, at + taken, size - taken);
        if (n == 0) {
            break;
        }
        taken += n;
        stream->body_bytes += n;
        stream->request->incoming.received += n;
        if (has_announced_length(stream) &&
            stream->body_bytes > (uint64_t) stream->request->incoming.sent_length) {
            log_info(&stream->request->log, 0,
                     "client intended to send body data larger than declared");
            break_body(stream);
        }
    }
    return taken;
}

/* Waits for more. False: time is up, or the stream is over. MAY WAIT. */
static bool wait_for_input(struct v3_stream *stream)
{
    if (request_body_wait(stream->request, &stream->reader)) {
        return true;
    }
    if (stream->request->incoming.refusal == 408 && !stream->request->incoming.is_too_slow) {
        stream->error = H3_REQUEST_INCOMPLETE;
    }
    return false;
}

/* A handler begins to read: a client that waits for 100 gets it. */
static void want_body(struct v3_stream *stream)
{
    struct request *request = stream->request;

    if (request->incoming.reads_no_further) {
        return; /* only what is there is looked at */
    }
    stream->is_body_wanted = true;
    if (stream->body_bytes == 0) {
        request_body_invite(request);
    }
}

ssize_t v3_read_body(struct request *request, void *at, size_t size)
{
    struct v3_stream *stream = request->wire_state;

    if (request->incoming.is_read && request->response.framing != FRAMING_TUNNEL) {
        return 0;
    }
    if (!stream->is_body_wanted) {
        want_body(stream);
    }
    for (;;) {
        size_t taken = take_body(stream, at, size);

        /* What came before a reset is no whole body, nor the end of one. */
        if (stream->is_reset || stream->quic == NULL) {
            return request_body_refuse(request, 0);
        }
        if (stream->is_body_broken) {
            return request_body_refuse(request, 400);
        }
        if (taken != 0) {
            request->incoming.is_read =
                stream->is_input_ended && request->response.framing != FRAMING_TUNNEL;
            return (ssize_t) taken;
        }
        if (stream->is_input_ended) {
            request->incoming.is_read = true;
            return 0;
        }
        if (!wait_for_input(stream)) {
            return -1;
        }
    }
}
