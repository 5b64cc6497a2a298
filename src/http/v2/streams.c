/* Streams: their fibers go on, they end, and so do their requests. */
#include "base/clock.h"
#include "http/request/engine.h"
#include "http/request/pace.h"
#include "http/routing/connection_settings.h"
#include "http/v2/v2.h"
#include "server/generation.h"

/* ---- waking ---- */

/* On the loop's stack: the fibers run at once, and their streams may be gone afterwards. */
void v2_run_woken(struct v2_connection *c)
{
    while (!list_is_empty(&c->woken)) {
        struct v2_stream *stream = container_of(c->woken.next, struct v2_stream, woken_node);

        list_remove(&stream->woken_node);
        bool goes_on = stream->is_window_waited && v2_tail_waits(stream);
        bool wakes_writer = stream->output.waiter != NULL &&
                            (stream->reset != V2_NOT_RESET ||
                             (stream->is_window_waited && stream->send_window > 0));
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

/* It is worked on no more. */
static void leave(struct v2_connection *c, struct v2_stream *stream)
{
    v2_stream_remove(c, stream);
    if (c->scheduler.has_weights) {
        v2_weights_ended(stream);
    }
    if (stream->is_turn_waited) {
        stream->is_turn_waited = false;
        c->scheduler.waiting_count--;
        list_remove(&stream->turn_node);
    }
    list_remove(&stream->woken_node);
    stream->is_window_waited = false; /* nobody is to wake it any more */
}

/* What is still to be said to the client of a stream whose request was worked on. */
static void end_stream(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    enum v2_end end = END_BY_US;

    if (stream->reset != V2_NOT_RESET) {
        v2_note_closed(c, stream->id, stream->reset == V2_RESET_BY_US ? END_BY_US : END_BY_PEER);
        return;
    }
    if (!stream->is_output_ended) {
        const struct request *request = stream->request;
        enum v2_error error = stream->error != 0                ? (enum v2_error) stream->error
                              : request->is_timed_out           ? V2_CANCEL
                              : request->response.status == 444 ? V2_PROTOCOL_ERROR
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
    leave(c, stream);
    v2_body_free(stream);
    stream->end_at =
        c->conn->queued; /* the response has left when this byte of the connection has */
    request->delivery.end = stream->given;
    request->delivery.sent = stream->given;
    pace_send_restart(request); /* it waits for the socket now */
    list_push_back(&c->finished, &request->node);
    c->finished_count++;
    v2_settle_later(c);
}

void v2_request_ended(struct request *request, enum handler_result result)
{
    struct v2_stream *stream = request->wire_state;
    struct v2_connection *c = stream->connection;

    c->connection->last_location = request->location;
    if (request->location->connections->keepalive_timeout_ms == 0) {
        v2_go_away(c, V2_NO_ERROR);
    }
    stream->has_ended = true;
    requests_held(1);
    if (stream->tail == NULL) { /* no bytes of the body wait for the client's window */
        v2_stream_settled(stream);
    } else if (result == HANDLER_CLOSED || !v2_tail_waits(stream)) {
        v2_tail_drop(stream);
    }
}

void v2_recycle(struct v2_connection *c)
{
    struct conn *conn = c->conn;

    while (!list_is_empty(&c->finished)) {
        struct request *request = container_of(c->finished.next, struct request, node);
        struct v2_stream *stream = request->wire_state;

        if (conn->sent < stream->end_at && !conn->is_broken) {
            break;
        }
        list_remove(&request->node);
        c->finished_count--;
        request_log(request);
        request_free(request);
    }
    if (c->is_writing && c->stream_count == 0 && list_is_empty(&c->finished)) {
        c->is_writing = false;
        counters_mine->writing--;
    }
}
