/* Flow control and turns: how much of a body may leave now, and whose. */
#include <errno.h>

#include "base/clock.h"
#include "http/request/pace.h"
#include "http/routing/connection_settings.h"
#include "http/v2/v2.h"
#include "server/generation.h"

/* More unsent bytes than this, and streams wait for the socket. */
#define UNSENT_MAX (64 * 1024)
/* Bytes of a body that a client takes within send_timeout, or it is left. */
#define PROGRESS_MIN 1024

bool v2_has_room(const struct v2_connection *c)
{
    return c->send_window > 0 && conn_unsent(c->conn) < UNSENT_MAX;
}

bool v2_widen(struct v2_connection *c, uint32_t by)
{
    c->send_window += by;
    return c->send_window <= WINDOW_MAX;
}

bool v2_stream_widen(struct v2_stream *stream, int64_t by)
{
    stream->send_window += by;
    if (stream->send_window > WINDOW_MAX) {
        return false;
    }
    if (stream->is_window_waited && stream->send_window > 0) {
        v2_wake(stream);
    }
    return true;
}

/* ---- turns ---- */

/* Does another stream wait whose turn is before this one's next? */
static bool has_rival(const struct v2_stream *stream)
{
    const struct v2_connection *c = stream->connection;

    if (c->scheduler.waiting_count == 0) {
        return false;
    }
    for (unsigned urgency = 0; urgency < stream->urgency; urgency++) {
        if (!list_is_empty(&c->scheduler.waiting[urgency])) {
            return true;
        }
    }
    return stream->is_incremental && !list_is_empty(&c->scheduler.waiting[stream->urgency]);
}

/* After those that have had less than this one, each by its share. One that comes new has no
 * credit. */
static void push_by_pass(struct v2_stream *stream, struct list *list)
{
    struct list *at = list->prev;

    if (stream->pass < stream->connection->scheduler.pass) {
        stream->pass = stream->connection->scheduler.pass;
    }
    while (at != list && container_of(at, struct v2_stream, turn_node)->pass > stream->pass) {
        at = at->prev;
    }
    list_push_front(at, &stream->turn_node);
}

/* To the list of those that wait. One that is not incremental continues before others of its
 * urgency. */
static void wait_for_turn(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    struct list *list = &c->scheduler.waiting[stream->urgency];

    if (stream->is_turn_waited) {
        return;
    }
    stream->is_turn_waited = true;
    c->scheduler.waiting_count++;
    if (stream->share != 0) {
        push_by_pass(stream, list);
    } else if (stream->is_incremental || stream->body_given == 0) {
        list_push_back(list, &stream->turn_node);
    } else {
        list_push_front(list, &stream->turn_node);
    }
}

static void leave_turns(struct v2_stream *stream)
{
    if (stream->is_turn_waited) {
        stream->is_turn_waited = false;
        stream->connection->scheduler.waiting_count--;
        list_remove(&stream->turn_node);
    }
}

void v2_prioritise(struct v2_stream *stream, uint8_t urgency, bool is_incremental)
{
    bool is_waiting = stream->is_turn_waited;

    leave_turns(stream);
    stream->urgency = urgency;
    stream->is_incremental = is_incremental;
    if (is_waiting) {
        wait_for_turn(stream);
    }
}

void v2_serve(struct v2_connection *c)
{
    /* Each runs once at most: what comes back to the list waits for the next time. */
    for (uint32_t left = c->scheduler.waiting_count; left != 0 && c->scheduler.waiting_count != 0;
         left--) {
        unsigned urgency = 0;

        if (!v2_has_room(c) && !c->conn->is_broken && c->phase < V2_FAILED) {
            return;
        }
        while (list_is_empty(&c->scheduler.waiting[urgency])) {
            urgency++;
        }
        struct v2_stream *stream =
            container_of(c->scheduler.waiting[urgency].next, struct v2_stream, turn_node);
        leave_turns(stream);
        stream->has_turn = true;
        c->scheduler.pass = stream->share != 0 ? stream->pass : c->scheduler.pass;
        if (v2_tail_waits(stream)) {
            v2_tail_go(stream);
        } else {
            wait_signal(&stream->output);
        }
    }
}

/* ---- waiting ---- */

/*
 * The client does not take what it asked for. When nothing else moves, either, the connection is
 * held for nothing, and ends; else this stream does.
 */
void v2_give_up(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    struct request *request = stream->request;

    request->log.action = "sending to client";
    log_info(&request->log, ETIMEDOUT, "client timed out");
    request->is_timed_out = true;
    counters_mine->limited++;
    if (c->phase < V2_FAILED &&
        clock_now.now_ms - c->progress_ms >= request->location->connections->send_timeout_ms) {
        struct log log;

        connection_log(c->connection, "processing HTTP/2 connection", &log);
        log_error(&log, 0, "client does not open its windows");
        v2_fail(c, V2_ENHANCE_YOUR_CALM, NULL);
    }
}

uint64_t v2_io_deadline(struct v2_stream *stream)
{
    if (stream->stalled_until_ms == 0 ||
        stream->body_given - stream->stalled_given >= PROGRESS_MIN) {
        stream->stalled_until_ms =
            clock_now.now_ms + stream->request->location->connections->send_timeout_ms;
        stream->stalled_given = stream->body_given;
    }
    return stream->stalled_until_ms;
}

/* Waits until the stream may go on. False: it is over. MAY WAIT. */
static bool wait_to_send(struct v2_stream *stream)
{
    stream->output.is_signalled = false;
    uint64_t until_ms = v2_io_deadline(stream);
    enum wait_result result =
        fiber_wait(&stream->output,
                   pace_send_begins(stream->request, stream->body_given, until_ms));
    leave_turns(stream);
    stream->is_window_waited = false;
    if (result == WAIT_CANCELLED || !pace_send_ended(stream->request, stream->body_given)) {
        return false;
    }
    if (result == WAIT_TIMED_OUT && clock_now.now_ms >= until_ms) {
        v2_give_up(stream);
        return false;
    }
    return true;
}

/* How many bytes limit_rate lets go; waits until some may. 0: the client is gone. MAY WAIT. */
static uint64_t wait_for_rate(struct v2_stream *stream, uint64_t wanted)
{
    struct request *request = stream->request;

    for (;;) {
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
}

size_t v2_try_grant(struct v2_stream *stream, uint64_t wanted)
{
    struct v2_connection *c = stream->connection;

    if (stream->send_window <= 0) {
        stream->is_window_waited = true;
        return 0;
    }
    if (!v2_has_room(c) || (!stream->has_turn && has_rival(stream))) {
        wait_for_turn(stream);
        v2_settle_later(c);
        return 0;
    }
    stream->has_turn = false;
    wanted = wanted < (uint64_t) stream->send_window ? wanted : (uint64_t) stream->send_window;
    return (size_t) (wanted < (uint64_t) c->send_window ? wanted : (uint64_t) c->send_window);
}

size_t v2_grant(struct v2_stream *stream, uint64_t wanted)
{
    uint64_t most = wanted;

    if (stream->request->delivery.limit_rate != 0) {
        most = wait_for_rate(stream, most);
    }
    while (most != 0 && stream->reset == V2_NOT_RESET && !stream->connection->conn->is_broken &&
           !(stream->is_leaving && stream->request->delivery.limit_rate == 0)) {
        size_t granted = v2_try_grant(stream, most);

        if (granted != 0) {
            return granted;
        }
        if (!wait_to_send(stream)) {
            break;
        }
    }
    return 0;
}

void v2_spend(struct v2_stream *stream, size_t size, size_t frames, bool is_tiny)
{
    struct v2_connection *c = stream->connection;

    stream->send_window -= (int64_t) size;
    c->send_window -= (int64_t) size;
    stream->body_given += size;
    if (stream->share != 0) {
        stream->pass += (uint64_t) size * 65536 / stream->share;
    }
    stream->given += size + frames * FRAME_HEAD_SIZE;
    stream->request->delivery.head_end += frames * FRAME_HEAD_SIZE; /* no part of the body */
    stream->request->delivery.sent = stream->given;
    c->progress_ms = clock_now.now_ms;
    v2_appease(c, GUARD_WINDOWS, (uint32_t) frames * 2);
    if (is_tiny) {
        v2_guard(c, GUARD_TINY);
    } else {
        v2_appease(c, GUARD_TINY, 1);
    }
}
