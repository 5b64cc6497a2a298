/* Bodies of responses: DATA frames of memory and of files, within what the client takes. */
#include <errno.h>

#include "base/clock.h"
#include "http/request/pace.h"
#include "http/routing/connection_settings.h"
#include "http/v3/v3.h"
#include "server/generation.h"

#define UNSENT_MAX                                                                                 \
    (256 * 1024) /* bytes that wait to be sent of a stream; above it, its fiber waits */
#define UNSENT_LEAST                                                                               \
    (32 * 1024) /* each stream may have so many when the connection has reached the limit below */
#define UNSENT_OF_ALL                                                                              \
    (2 * 1024 *                                                                                    \
     1024) /* of all streams of a connection: a client that reads nothing has 128 streams */
#define COPY_MAX (64 * 1024) /* of memory that is used again, rather than a fiber that waits */
#define REFERENCE_MIN 4096   /* smaller pieces are copied */

/* A piece that the transport refers to, until the client has acknowledged all of it. */
struct reference {
    struct v3_stream *stream;
    struct body_piece piece;
    unsigned count; /* parts that the transport has, and one more while they are being given */
};

static void release_piece(const struct body_piece *piece)
{
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
}

/* The transport has done with a part, or all parts were given. */
static void reference_drop(void *arg)
{
    struct reference *reference = arg;
    struct v3_stream *stream = reference->stream;

    if (--reference->count == 0) {
        release_piece(&reference->piece);
        stream->references--;
        if (stream->has_ended) {
            v3_settle_later(stream->connection);
        }
    }
}

static struct reference *reference_make(struct v3_stream *stream, const struct body_piece *piece)
{
    struct reference *reference = arena_new(&stream->request->arena, struct reference);

    *reference = (struct reference){stream, *piece, 1};
    stream->references++;
    return reference;
}

/* ---- frames ---- */

static void put_data_head(struct v3_stream *stream, uint64_t size)
{
    char head[H3_FRAME_ROOM];
    char *end = h3_put_frame(head, H3_DATA, size);

    if (stream->request->head.version == HTTP_3) {
        quic_stream_write(stream->quic, str_from(head, end));
        stream->given += (uint64_t) (end - head);
        stream->request->delivery.head_end += (uint64_t) (end - head); /* no part of the body */
    }
}

/* Is all of it copied, whatever parts it is given in? */
static bool is_copied(const struct body_piece *piece, uint64_t size)
{
    return piece->bytes.data != NULL && (piece->is_volatile || size < REFERENCE_MIN);
}

/* A part of a piece as a DATA frame. reference: NULL where the piece is copied. */
static void put_part(struct v3_stream *stream, const struct body_piece *piece,
                     struct reference *reference, uint64_t from, uint64_t size)
{
    put_data_head(stream, size);
    if (piece->bytes.data == NULL) {
        struct file_range range = {piece->offset + (off_t) from, size};
        reference->count++;
        quic_stream_write_file(stream->quic, piece->fd, range, reference_drop, reference);
    } else if (is_copied(piece, size)) {
        quic_stream_write(stream->quic, (struct str){piece->bytes.data + from, (size_t) size});
    } else {
        reference->count++;
        quic_stream_write_reference(stream->quic,
                                    (struct str){piece->bytes.data + from, (size_t) size},
                                    reference_drop, reference);
    }
    stream->given += size;
    stream->request->delivery.sent = stream->given;
}

/* ---- how much may be given ---- */

/* The client takes too little: the request ends. */
static void v3_send_body_give_up(struct v3_stream *stream)
{
    struct request *request = stream->request;

    request->log.action = "sending to client";
    log_info(&request->log, ETIMEDOUT, "client timed out");
    request->is_timed_out = true;
    counters_mine->limited++;
}

/* Bytes that wait of all streams. Files are no memory: one counts as much as a stream may have. */
static uint64_t unsent_of_streams(const struct list *streams)
{
    uint64_t sum = 0;

    for (const struct list *link = streams->next; link != streams; link = link->next) {
        const struct v3_stream *stream = container_of(link, struct v3_stream, link);
        uint64_t unsent = stream->given - v3_sent(stream);

        sum += unsent < UNSENT_MAX ? unsent : UNSENT_MAX;
    }
    return sum;
}

/* How many bytes of the stream may wait. */
static uint64_t unsent_most(const struct v3_stream *stream)
{
    const struct v3_connection *c = stream->connection;

    return unsent_of_streams(&c->streams) + unsent_of_streams(&c->finished) < UNSENT_OF_ALL
               ? UNSENT_MAX
               : UNSENT_LEAST;
}

/*
 * Waits until fewer bytes than this are unsent, for send_timeout at most. False: the stream is
 * over, or the client took nothing for so long, or less than send_min_rate. MAY WAIT.
 */
static bool wait_to_send(struct v3_stream *stream, uint64_t below)
{
    uint64_t sent = v3_sent(stream);

    stream->writer.is_signalled = false;
    quic_stream_want_writable(stream->quic, below);
    uint64_t until_ms = clock_now.now_ms + stream->request->location->connections->send_timeout_ms;
    enum wait_result result =
        fiber_wait(&stream->writer, pace_send_begins(stream->request, sent, until_ms));
    if (result != WAIT_CANCELLED && !pace_send_ended(stream->request, v3_sent(stream))) {
        return false;
    }
    if (result == WAIT_TIMED_OUT && clock_now.now_ms < until_ms) {
        return true; /* only a period of send_min_rate is over, and the client took enough */
    }
    if (result == WAIT_TIMED_OUT && v3_sent(stream) != sent) {
        return true; /* the client is slow, but it takes bytes: send_timeout starts again */
    }
    if (result == WAIT_TIMED_OUT) {
        v3_send_body_give_up(stream);
    }
    return result == WAIT_READY;
}

/* How many of the wanted bytes limit_rate allows now; waits until it allows some. 0: the client is
 * gone. MAY WAIT. */
static uint64_t wait_for_rate(struct v3_stream *stream, uint64_t wanted)
{
    struct request *request = stream->request;

    while (request->delivery.limit_rate != 0) {
        uint64_t elapsed_ms = clock_now.now_ms - request->start_ms;
        uint64_t allowed = request->delivery.limit_rate_after +
                           request->delivery.limit_rate * (elapsed_ms / 1000 + 1);

        if (allowed > stream->given) {
            return allowed - stream->given < wanted ? allowed - stream->given : wanted;
        }
        uint64_t pause_ms = (stream->given - allowed) * 1000 / request->delivery.limit_rate + 1;
        if (fiber_sleep(clock_now.now_ms + pause_ms) == WAIT_CANCELLED) {
            return 0;
        }
    }
    return wanted;
}

/*
 * May QUIC get all of the piece at once, however much is unsent? So it is with the last pieces of a
 * response (v3_leave): QUIC refers to their memory or file, or copies no more than COPY_MAX, and
 * the fiber ends without waiting for the client.
 */
static bool may_leave(const struct v3_stream *stream, const struct body_piece *piece, uint64_t size,
                      bool is_last)
{
    const struct request *request = stream->request;

    return (is_last || stream->is_leaving) && request->delivery.limit_rate == 0 &&
           request->response.framing != FRAMING_TUNNEL &&
           (!piece->is_volatile || quic_stream_unsent(stream->quic) + size <= COPY_MAX);
}

/* How many bytes may be given now. 0: the stream is over. MAY WAIT. */
static uint64_t grant(struct v3_stream *stream, const struct body_piece *piece, uint64_t wanted,
                      bool is_last)
{
    uint64_t most = wait_for_rate(stream, wanted);

    while (most != 0 && !stream->is_reset) {
        uint64_t unsent = quic_stream_unsent(stream->quic);

        if (may_leave(stream, piece, wanted, is_last)) {
            return most;
        }
        uint64_t unsent_max = unsent_most(stream);
        if (unsent < unsent_max) {
            return most < unsent_max - unsent ? most : unsent_max - unsent;
        }
        if (!wait_to_send(stream, unsent_max / 2)) {
            break;
        }
    }
    return 0;
}

/* The piece to the transport. MAY WAIT. False: the stream is over. */
static bool give_piece(struct v3_stream *stream, const struct body_piece *piece, uint64_t size,
                       bool is_last)
{
    struct reference *reference = is_copied(piece, size) ? NULL : reference_make(stream, piece);
    uint64_t done = 0;

    while (done < size && !stream->is_reset) {
        uint64_t left = size - done;
        uint64_t granted = grant(stream, piece, left, is_last);

        if (granted == 0) {
            break;
        }
        put_part(stream, piece, reference, done, granted);
        done += granted;
    }
    if (reference == NULL) {
        release_piece(piece);
    } else {
        reference_drop(reference);
    }
    return done == size && !stream->is_reset;
}

bool v3_send_body(struct request *request, const struct body_piece *piece, bool is_last)
{
    struct v3_stream *stream = request->wire_state;
    uint64_t size = piece == NULL ? 0 : piece->bytes.data != NULL ? piece->bytes.len : piece->size;

    if (stream->is_output_ended) {
        size = 0; /* no body was announced */
    }
    if (size == 0 || stream->is_reset) {
        release_piece(piece);
    } else if (!give_piece(stream, piece, size, is_last)) {
        return false;
    }
    if (stream->is_reset) {
        return false;
    }
    if (is_last) {
        if (!stream->is_output_ended) {
            v3_send_end(stream);
        }
        request->response.progress = RESPONSE_COMPLETE;
    }
    return true;
}

void v3_send_end(struct v3_stream *stream)
{
    const struct fields *trailers = stream->request->response.trailers;

    stream->is_output_ended = true;
    if (trailers != NULL && trailers->count != 0 && stream->request->head.version == HTTP_3) {
        v3_send_trailers(stream);
    }
    quic_stream_finish(stream->quic);
}

/* ---- the wire ---- */

/* What gives the body has all of it: it does not wait for the client any more. */
static void v3_leave(struct request *request)
{
    struct v3_stream *stream = request->wire_state;

    if (request->delivery.limit_rate == 0 && request->response.framing != FRAMING_TUNNEL &&
        !stream->is_leaving) {
        stream->is_leaving = true;
        if (stream->writer.waiter != NULL) {
            wait_signal_later(&stream->writer);
        }
    }
}

static uint64_t v3_backlog(const struct request *request, uint64_t more)
{
    const struct v3_stream *stream = request->wire_state;

    if (stream->quic == NULL) {
        return 0;
    }
    uint64_t unsent = quic_stream_unsent(stream->quic);
    return unsent >= unsent_most(stream) ? UINT64_MAX : unsent;
}

/* Packets leave at the end of the turn: QUIC sees to it. */
static void v3_flush(struct request *request)
{
}

static bool v3_has_lost_client(const struct request *request)
{
    const struct v3_stream *stream = request->wire_state;

    return stream->connection->phase == V3_CLOSED;
}

static uint64_t v3_bytes_sent(const struct request *request)
{
    return v3_sent(request->wire_state);
}

static unsigned v3_shares(const struct request *request)
{
    const struct v3_stream *stream = request->wire_state;

    return stream->connection->stream_count;
}

const struct http_wire v3_wire = {
    .is_multiplexed = true,
    .hides_connection_fields = true,
    .reads_files = true,
    .send_head = v3_send_head,
    .send_body = v3_send_body,
    .send_interim = v3_send_interim,
    .read_body = v3_read_body,
    .ended = v3_request_ended,
    .backlog = v3_backlog,
    .leave = v3_leave,
    .flush = v3_flush,
    .has_lost_client = v3_has_lost_client,
    .sent = v3_bytes_sent,
    .shares = v3_shares,
};

/* ---- HTTP/0.9: a body alone ---- */

static void hq_send_head(struct request *request)
{
    struct v3_stream *stream = request->wire_state;
    struct response *response = &request->response;

    response->progress = RESPONSE_HEAD_SENT;
    if (!stream->is_reset && (response->is_header_only || response->content_length == 0)) {
        v3_send_end(stream);
    }
}

static void hq_send_interim(struct request *request, unsigned status, const struct fields *fields)
{
}

static ssize_t hq_read_body(struct request *request, void *at, size_t size)
{
    request->incoming.is_read = true;
    return 0;
}

const struct http_wire hq_wire = {
    .is_multiplexed = true,
    .hides_connection_fields = true,
    .reads_files = true,
    .send_head = hq_send_head,
    .send_body = v3_send_body,
    .send_interim = hq_send_interim,
    .read_body = hq_read_body,
    .ended = v3_request_ended,
    .backlog = v3_backlog,
    .leave = v3_leave,
    .flush = v3_flush,
    .has_lost_client = v3_has_lost_client,
    .sent = v3_bytes_sent,
};
