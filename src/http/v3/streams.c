/* Streams of requests: they begin, their fibers go on, they end, and so do their requests. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/spares.h"
#include "http/message/prefixed.h"
#include "http/request/engine.h"
#include "http/request/pace.h"
#include "http/routing/connection_settings.h"
#include "http/v3/v3.h"
#include "server/generation.h"

#define SPARE_STREAMS_MOST 256u /* whose memory a worker keeps */

static struct spares spare_streams;

/* ---- deadlines ---- */

/* The head has to come within client_header_timeout of its first byte. */
static void await_head(struct v3_stream *stream)
{
    const struct http_server *server = connection_server(stream->connection->connection);

    timer_set(&stream->timer, clock_now.now_ms + server->client_header_timeout_ms);
}

/* A response waits for its client only: for send_timeout since it took something, and by
 * send_min_rate. */
static void wait_for_client(struct v3_stream *stream)
{
    struct request *request = stream->request;
    uint64_t sent = v3_sent(stream);

    if (stream->until_ms == 0 || sent != stream->sent_seen) {
        stream->sent_seen = sent;
        stream->until_ms = clock_now.now_ms + request->location->connections->send_timeout_ms;
    }
    timer_set(&stream->timer, pace_send_begins(request, sent, stream->until_ms));
}

/* The client does not take the rest of a response that nothing works on any more. */
static void v3_streams_give_up(struct v3_stream *stream)
{
    struct request *request = stream->request;

    request->log.action = "sending to client";
    log_info(&request->log, ETIMEDOUT, "client timed out");
    request->is_timed_out = true;
    counters_mine->limited++;
    v3_reset(stream, H3_REQUEST_CANCELLED);
    v3_settle_later(stream->connection);
}

static void fire(struct timer *timer)
{
    struct v3_stream *stream = container_of(timer, struct v3_stream, timer);

    if (!stream->has_head) {
        struct log log;

        connection_log(stream->connection->connection, "reading client request headers", &log);
        log_info(&log, ETIMEDOUT, "client timed out");
        v3_stream_drop(stream, H3_REQUEST_INCOMPLETE);
    } else if (!pace_send_ended(stream->request, v3_sent(stream))) {
        v3_reset(stream, H3_REQUEST_CANCELLED);
        v3_settle_later(stream->connection);
    } else if (stream->sent_seen != v3_sent(stream) || clock_now.now_ms < stream->until_ms) {
        wait_for_client(stream);
    } else {
        v3_streams_give_up(stream);
    }
}

/* ---- the beginning ---- */

static struct v3_stream *stream_make(struct v3_connection *c, struct quic_stream *quic)
{
    struct v3_stream *stream = spares_take(&spare_streams, sizeof(*stream));

    *stream = (struct v3_stream){.connection = c, .quic = quic, .id = quic->id};
    quic->user = stream;
    conn_unpark(c->connection->conn);
    list_init(&stream->blocked_node);
    list_init(&stream->start_node);
    timer_init(&stream->timer, fire);
    list_push_back(&c->streams, &stream->link);
    c->stream_count++;
    if (!c->is_writing) {
        c->is_writing = true;
        counters_mine->writing++;
    }
    return stream;
}

void v3_stream_opened(struct v3_connection *c, struct quic_stream *quic)
{
    if (c->phase >= V3_FAILED || (c->phase == V3_GOING_AWAY && quic->id >= c->goaway_stream)) {
        quic_stream_release(quic, H3_REQUEST_REJECTED);
        v3_guard(c, V3_GUARD_REFUSED);
        return;
    }
    struct v3_stream *stream = stream_make(c, quic);

    if (quic->id >= c->next_stream) {
        c->next_stream = quic->id + 4;
    }
    /* A client that says nothing is served by turns. */
    v3_prioritise(stream, 3, true);
    timer_remove(&c->idle_timer);
    if (quic_stream_input(quic).len ==
        0) { /* else it is readable, and most often the head is whole */
        await_head(stream);
    }
}

/* ---- what QUIC reports ---- */

static void wake(struct v3_stream *stream)
{
    if (stream->reader.waiter != NULL) {
        wait_signal_later(&stream->reader);
    }
    if (stream->writer.waiter != NULL) {
        wait_signal_later(&stream->writer);
    }
}

static void leave_blocked(struct v3_stream *stream)
{
    if (!list_is_empty(&stream->blocked_node)) {
        list_remove(&stream->blocked_node);
        stream->connection->blocked_count--;
    }
}

static void log_cancelled(const struct v3_stream *stream, uint64_t code)
{
    const struct log *log = &stream->request->log;
    unsigned long long id = stream->id;

    switch (code) {
    case H3_REQUEST_CANCELLED:
        log_info(log, 0, "client canceled stream %llu", id);
        break;
    case H3_REQUEST_REJECTED:
        log_info(log, 0, "client refused stream %llu", id);
        break;
    case H3_INTERNAL_ERROR:
        log_info(log, 0, "client terminated stream %llu due to internal error", id);
        break;
    default:
        log_info(log, 0, "client terminated stream %llu with status %llu", id,
                 (unsigned long long) code);
        break;
    }
}

/* The client has reset the stream, or wants no response. */
static void cancelled_by_client(struct v3_stream *stream, uint64_t code)
{
    struct v3_connection *c = stream->connection;

    if (stream->is_reset) {
        return;
    }
    if (!stream->has_head && stream->input.part == H3_PART_BLOCKED &&
        stream->quic->is_input_reset) {
        /* It has ended its side of a request that waits for entries: there is an answer, as nginx
         * has it. */
        leave_blocked(stream);
        stream->is_input_ended = true;
        v3_refuse_head(stream, 400, "client reset a stream with blocked header fields");
    } else if (!stream->has_head) {
        v3_stream_drop(stream, H3_REQUEST_CANCELLED);
    } else {
        log_cancelled(stream, code);
        v3_reset(stream, H3_REQUEST_CANCELLED);
    }
    v3_guard(c, V3_GUARD_RESETS);
}

void v3_stream_readable(struct v3_stream *stream)
{
    if (stream->quic->is_input_reset && !stream->is_input_ended) {
        cancelled_by_client(stream, stream->quic->input_code);
        return;
    }
    v3_stream_read(stream);
    if (!stream->has_head && stream->connection->phase < V3_FAILED &&
        stream->timer.deadline_ms == NO_DEADLINE) {
        await_head(stream);
    }
    bool has_something = stream->is_input_ended || stream->is_body_broken || stream->is_reset ||
                         stream->input.part == H3_PART_DATA;
    if (has_something && stream->reader.waiter != NULL) {
        wait_signal_later(&stream->reader);
    }
}

void v3_stream_writable(struct v3_stream *stream)
{
    if (stream->quic->is_output_stopped && !stream->is_reset) {
        if (stream->has_ended || !stream->has_head) {
            v3_reset(stream, H3_REQUEST_CANCELLED);
            v3_settle_later(stream->connection);
        } else {
            cancelled_by_client(stream, stream->quic->output_code);
        }
        return;
    }
    if (stream->has_ended) {
        v3_settle_later(stream->connection);
    } else if (stream->writer.waiter != NULL) {
        wait_signal_later(&stream->writer);
    }
}

/* ---- the end ---- */

/* The stream is worked on no more. */
static void stream_leave(struct v3_stream *stream)
{
    struct v3_connection *c = stream->connection;

    leave_blocked(stream);
    list_remove(&stream->link);
    list_push_back(&c->finished, &stream->link);
    c->stream_count--;
    v3_settle_later(c);
}

static void release_quic(struct v3_stream *stream, uint64_t error)
{
    if (stream->quic != NULL) {
        stream->quic->user = NULL;
        quic_stream_release(stream->quic, error);
        stream->quic = NULL;
    }
}

/* The encoder is not to wait for an acknowledgment of sections of this stream (RFC 9204, 4.4.2). */
void v3_cancel_sections(struct v3_stream *stream)
{
    struct v3_connection *c = stream->connection;
    char instruction[PREFIXED_INTEGER_ROOM];

    if (c->decoder_stream != NULL && c->phase < V3_FAILED) {
        char *end = qpack_put_cancellation(instruction, stream->id);
        quic_stream_write(c->decoder_stream, str_from(instruction, end));
    }
}

/* No more is sent of it: what waited does not count, and a response that has lost some was not a
 * whole one. */
static void note_end(struct v3_stream *stream)
{
    bool is_stopped = stream->quic != NULL && stream->quic->is_output_stopped && !stream->is_reset;
    uint64_t sent = is_stopped ? quic_stream_sent(stream->quic) : v3_sent(stream);

    if (sent != stream->given && stream->request != NULL) {
        stream->request->is_completed = false;
    }
    stream->given = sent;
}

void v3_stream_drop(struct v3_stream *stream, uint64_t error)
{
    stream->is_reset = true;
    stream->is_input_ended = true;
    stream->is_logged = true;
    stream->has_head = true;
    v3_cancel_sections(stream);
    timer_remove(&stream->timer);
    stream->given = v3_sent(stream);
    release_quic(stream, error);
    stream_leave(stream);
}

void v3_cancel(struct v3_stream *stream)
{
    if (!stream->has_head) {
        v3_stream_drop(stream, H3_REQUEST_CANCELLED);
        return;
    }
    stream->is_reset = true;
    v3_start(stream); /* so that it ends as others do */
    wake(stream);     /* fibers beside the request's, and one that is shielded, see it, too */
    if (!stream->has_ended) {
        request_cancel(stream->request);
    }
}

void v3_reset(struct v3_stream *stream, uint64_t error)
{
    if (stream->is_reset) {
        return;
    }
    note_end(stream);
    quic_stream_reset(stream->quic, error);
    if (!stream->is_input_ended) {
        quic_stream_stop(stream->quic, error);
        v3_cancel_sections(stream);
    }
    v3_cancel(stream);
}

void v3_stream_closed(struct v3_stream *stream)
{
    note_end(stream);
    stream->quic = NULL;
    if (!stream->is_reset) {
        v3_cancel(stream);
    }
}

/* What is still to be said to the client of a stream whose request was worked on. */
static void end_stream(struct v3_stream *stream)
{
    const struct request *request = stream->request;

    if (stream->quic == NULL || stream->is_reset) {
        return;
    }
    if (!stream->is_output_ended) {
        stream->given = v3_sent(stream);
        quic_stream_reset(stream->quic, stream->error != 0      ? stream->error
                                        : request->is_timed_out ? H3_REQUEST_CANCELLED
                                                                : H3_INTERNAL_ERROR);
        stream->is_reset = true;
    } else {
        v3_appease(stream->connection, V3_GUARD_RESETS);
    }
    if (!stream->is_input_ended) {
        /* The response is whole without the rest of the request (RFC 9114, 4.1). */
        quic_stream_stop(stream->quic, stream->error != 0 ? stream->error : H3_NO_ERROR);
        v3_cancel_sections(stream);
        stream->is_input_ended = true;
    }
}

void v3_request_ended(struct request *request, enum handler_result result)
{
    struct v3_stream *stream = request->wire_state;
    struct v3_connection *c = stream->connection;

    c->connection->last_location = request->location;
    if (request->location->connections->keepalive_timeout_ms == 0) {
        v3_go_away(c);
    }
    stream->has_ended = true;
    requests_held(1);
    end_stream(stream);
    stream_leave(stream);
}

/* Its bytes have left, or are lost. */
static bool is_sent(const struct v3_stream *stream)
{
    return stream->quic == NULL || stream->is_reset || quic_stream_unsent(stream->quic) == 0;
}

static void stream_log(struct v3_stream *stream)
{
    struct request *request = stream->request;

    stream->is_logged = true;
    timer_remove(&stream->timer);
    note_end(stream); /* a client that has stopped it is heard of later */
    request->delivery.end = request->delivery.sent = stream->given;
    requests_held(-1);
    request_log(request);
}

void v3_recycle(struct v3_connection *c)
{
    struct list *next;

    for (struct list *link = c->finished.next; link != &c->finished; link = next) {
        struct v3_stream *stream = container_of(link, struct v3_stream, link);

        next = link->next;
        if (!is_sent(stream)) {
            if (stream->until_ms == 0) { /* it did not leave in the turn in which it ended */
                quic_stream_want_writable(stream->quic, 1);
                wait_for_client(stream);
            }
            continue;
        }
        if (!stream->is_logged) {
            stream_log(stream);
        }
        if (stream->references != 0) {
            continue; /* memory and files that may have to be sent again */
        }
        list_remove(&stream->link);
        release_quic(stream, H3_NO_ERROR);
        h3_input_free(&stream->input);
        if (stream->request != NULL) {
            c->answered_ms = clock_now.now_ms;
            request_free(stream->request);
        }
        spares_give(&spare_streams, stream, SPARE_STREAMS_MOST);
    }
    if (c->is_writing && c->stream_count == 0 && list_is_empty(&c->finished)) {
        c->is_writing = false;
        counters_mine->writing--;
    }
}

/* ---- by id, and their priorities ---- */

struct v3_stream *v3_find(const struct v3_connection *c, uint64_t id)
{
    for (struct list *link = c->streams.next; link != &c->streams; link = link->next) {
        struct v3_stream *stream = container_of(link, struct v3_stream, link);
        if (stream->id == id) {
            return stream;
        }
    }
    return NULL;
}

void v3_prioritise(struct v3_stream *stream, uint8_t urgency, bool is_incremental)
{
    stream->urgency = urgency;
    stream->is_incremental = is_incremental;
    if (stream->quic != NULL) {
        quic_stream_prioritize(stream->quic, urgency, is_incremental);
    }
}
