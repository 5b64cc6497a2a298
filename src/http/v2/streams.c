/* Streams: the table of those that are worked on, their end, and the end of their requests. */
#include "base/clock.h"
#include "http/v2/v2.h"
#include "server/generation.h"

/* ---- the table ---- */

static struct v2_stream **bucket_of(const struct v2_connection *c, uint32_t id)
{
    return &c->streams[id >> 1 & c->bucket_mask];
}

struct v2_stream *v2_find(const struct v2_connection *c, uint32_t id)
{
    struct v2_stream *stream = *bucket_of(c, id);

    while (stream != NULL && stream->id != id) {
        stream = stream->next;
    }
    return stream;
}

void v2_stream_add(struct v2_connection *c, struct v2_stream *stream, uint32_t id)
{
    struct v2_stream **bucket = bucket_of(c, id);

    stream->connection = c;
    stream->id = id;
    stream->send_window = c->peer_window;
    stream->recv_window = c->is_acknowledged ? (int64_t) c->settings->preread_size : WINDOW_DEFAULT;
    list_init(&stream->turn_link);
    list_init(&stream->woken_link);
    stream->next = *bucket;
    *bucket = stream;
    c->stream_count++;
    if (!c->is_writing) {
        c->is_writing = true;
        counters_mine->writing++;
    }
}

static void remove_stream(struct v2_connection *c, struct v2_stream *stream)
{
    struct v2_stream **at = bucket_of(c, stream->id);

    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    c->stream_count--;
    if (c->has_weights) {
        v2_weights_ended(stream);
    }
    if (stream->is_turn_waited) {
        stream->is_turn_waited = false;
        c->waiting_count--;
        list_remove(&stream->turn_link);
    }
    list_remove(&stream->woken_link);
    stream->is_window_waited = false; /* nobody is to wake it any more */
}

void v2_each(struct v2_connection *c, void (*visit)(struct v2_stream *stream, void *arg), void *arg)
{
    for (uint32_t i = 0; i <= c->bucket_mask; i++) {
        struct v2_stream *next;
        for (struct v2_stream *stream = c->streams[i]; stream != NULL; stream = next) {
            next = stream->next;
            visit(stream, arg);
        }
    }
}

/* ---- those that have ended ---- */

/* Where a stream's end is remembered, until another with the same place ends. */
static unsigned place_of(uint32_t id)
{
    return id / 2 % CLOSED_KEPT;
}

void v2_note_closed(struct v2_connection *c, uint32_t id, enum v2_end end)
{
    c->closed[place_of(id)].id = id;
    c->closed[place_of(id)].end = (uint8_t) end;
}

enum v2_end v2_ending(const struct v2_connection *c, uint32_t id)
{
    unsigned place = place_of(id);

    return c->closed[place].id == id ? (enum v2_end) c->closed[place].end : END_UNKNOWN;
}

void v2_put_reset(struct v2_connection *c, uint32_t id, enum v2_error error)
{
    char *room = conn_out_room(c->conn, FRAME_HEAD_SIZE + 4);

    put_u32(frame_put(room, 4, FRAME_RST_STREAM, 0, id), error);
    conn_out_commit(c->conn, FRAME_HEAD_SIZE + 4);
    v2_settle_later(c);
}

void v2_cancel(struct v2_stream *stream)
{
    stream->is_reset = true;
    stream->is_input_ended = true;
    v2_wake(stream); /* fibers beside the request's, and one that is shielded, are told, too */
    request_cancel(stream->request);
    v2_tail_drop(stream);
}

void v2_reset(struct v2_stream *stream, enum v2_error error)
{
    if (!stream->is_reset) {
        v2_put_reset(stream->connection, stream->id, error);
        stream->is_reset_by_us = true;
        v2_cancel(stream);
    }
}

/* ---- waking ---- */

void v2_wake(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;

    if (list_is_empty(&stream->woken_link)) {
        list_push_back(&c->woken, &stream->woken_link);
        v2_settle_later(c);
    }
}

/* On the loop's stack: the fibers run at once, and their streams may be gone afterwards. */
void v2_run_woken(struct v2_connection *c)
{
    while (!list_is_empty(&c->woken)) {
        struct v2_stream *stream = container_of(c->woken.next, struct v2_stream, woken_link);

        list_remove(&stream->woken_link);
        bool goes_on = stream->is_window_waited && v2_tail_waits(stream);
        bool wakes_writer =
            stream->output.waiter != NULL &&
            (stream->is_reset || (stream->is_window_waited && stream->send_window > 0));
        bool wakes_reader = stream->input.waiter != NULL;

        if (wakes_reader && (goes_on || wakes_writer)) {
            wait_signal_later(&stream->input); /* of another fiber, which the writer's joins */
        }
        if (goes_on) {
            stream->is_window_waited = false;
            v2_tail_go(stream);
        } else if (wakes_writer) {
            stream->is_window_waited = false;
            wait_signal(&stream->output);
        } else if (wakes_reader) {
            wait_signal(&stream->input);
        }
    }
}

/* ---- the end ---- */

/* What is still to be said to the client of a stream whose request was worked on. */
static void end_stream(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    enum v2_end end = END_BY_US;

    if (stream->is_reset) {
        v2_note_closed(c, stream->id, stream->is_reset_by_us ? END_BY_US : END_BY_PEER);
        return;
    }
    if (!stream->is_output_ended) {
        enum v2_error error = stream->error != 0              ? (enum v2_error) stream->error
                              : stream->request->is_timed_out ? V2_CANCEL
                                                              : V2_INTERNAL_ERROR;
        v2_put_reset(c, stream->id, error);
    } else if (!stream->is_input_ended && stream->error == 0) {
        /* The answer is whole without the rest of the request (RFC 9113, 8.1). */
        v2_drain(stream);
        return;
    } else if (stream->error != 0) {
        v2_put_reset(c, stream->id, (enum v2_error) stream->error);
    } else {
        end = END_WHOLE;
        v2_appease(c, GUARD_RESETS, 1);
    }
    v2_note_closed(c, stream->id, end);
}

void v2_stream_settled(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    struct request *request = stream->request;

    if (!stream->has_ended) {
        return;
    }
    stream->has_ended = false;
    requests_held(-1);
    end_stream(stream);
    remove_stream(c, stream);
    v2_body_free(stream);
    stream->end_at = c->conn->queued;
    request->out_end = stream->given;
    request->out_sent = stream->given;
    list_push_back(&c->finished, &request->link);
    c->finished_count++;
    v2_settle_later(c);
}

void v2_request_ended(struct request *request, enum flow flow)
{
    struct v2_stream *stream = request->wire_state;
    struct v2_connection *c = stream->connection;

    c->http->rest_location = request->location;
    if (request->location->keepalive_timeout_ms == 0) {
        v2_go_away(c, V2_NO_ERROR);
    }
    stream->has_ended = true;
    requests_held(1);
    if (stream->tail == NULL) {
        v2_stream_settled(stream);
    } else if (flow == FLOW_CLOSED || !v2_tail_waits(stream)) {
        v2_tail_drop(stream);
    }
}

void v2_recycle(struct v2_connection *c)
{
    struct conn *conn = c->conn;

    while (!list_is_empty(&c->finished)) {
        struct request *request = container_of(c->finished.next, struct request, link);
        struct v2_stream *stream = request->wire_state;

        if (conn->sent < stream->end_at && !conn->is_broken) {
            break;
        }
        list_remove(&request->link);
        c->finished_count--;
        request_log(request);
        request_free(request);
    }
    if (c->is_writing && c->stream_count == 0 && list_is_empty(&c->finished)) {
        c->is_writing = false;
        counters_mine->writing--;
    }
}
