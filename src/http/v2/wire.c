/* The wire of HTTP/2: how bodies are given, by a fiber or as a tail. */
#include "http/request/request.h"
#include "http/request/wire.h"
#include "http/v2/v2.h"

static void drop_piece(const struct body_piece *piece)
{
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
}

/*
 * The piece to the client, or what is left of it to the stream's tail. MAY WAIT. False: the stream
 * is over. The piece is the tail's then, or released.
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

        if (stream->reset != V2_NOT_RESET || c->conn->is_broken) {
            granted = 0;
        } else if (granted == 0 && may_hold) {
            v2_tail_hold(stream, piece, done, size);
            return true;
        } else if (granted == 0 && stream->is_leaving && !stream->request->is_timed_out) {
            continue;
        }
        size_t n = granted == 0 ? 0 : v2_put_frames(stream, piece, done, granted, is_last);
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
    if (stream->reset != V2_NOT_RESET || c->conn->is_broken) {
        return false;
    }
    if (v2_tail_waits(stream)) {
        if (is_last) {
            response->progress = RESPONSE_COMPLETE;
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
        response->progress = RESPONSE_COMPLETE;
    }
    /* What was given leaves at the end of this turn, with what others give. */
    v2_settle_later(c);
    return true;
}

/* The code that makes the body has made all of it: nothing waits for the client any more, see
 * tail.c. */
static void v2_leave(struct request *request)
{
    struct v2_stream *stream = request->wire_state;

    if (request->delivery.limit_rate == 0 && request->response.framing != FRAMING_TUNNEL &&
        !stream->is_leaving) {
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

    return waits ? UINT64_MAX : conn_unsent(c->conn);
}

static void v2_flush(struct request *request)
{
    conn_flush(request->connection->conn);
}

static bool v2_has_lost_client(const struct request *request)
{
    return request->connection->conn->is_broken;
}

/* Of a stream all that was given counts: it is not known what of it the socket took. */
static uint64_t v2_sent(const struct request *request)
{
    const struct v2_stream *stream = request->wire_state;

    return stream->given;
}

static unsigned v2_shares(const struct request *request)
{
    const struct v2_stream *stream = request->wire_state;

    return stream->connection->stream_count;
}

const struct http_wire v2_wire = {
    .is_multiplexed = true,
    .hides_connection_fields = true,
    .reads_files = true,
    .send_head = v2_send_head,
    .send_body = v2_send_body,
    .send_interim = v2_send_interim,
    .read_body = v2_read_body,
    .has_whole_body = v2_has_whole_body,
    .ended = v2_request_ended,
    .backlog = v2_backlog,
    .flush = v2_flush,
    .has_lost_client = v2_has_lost_client,
    .sent = v2_sent,
    .shares = v2_shares,
    .leave = v2_leave,
};
