/*
 * Streams whose answer is whole and whose request is not: what still comes of it is read and
 * dropped for a moment, so that a client which is about to end gets no RST_STREAM, and a malformed
 * end is reported.
 */
#include "base/clock.h"
#include "http/request/request.h"
#include "http/v2/v2.h"

#define DRAIN_MS 100

static struct v2_drained *drained_find(struct v2_connection *c, uint32_t id)
{
    for (unsigned i = 0; i < DRAINS && c->drain_count != 0; i++) {
        if (c->drains[i].id == id) {
            return &c->drains[i];
        }
    }
    return NULL;
}

static void v2_drain_end(struct v2_connection *c, struct v2_drained *drained, enum v2_error error)
{
    v2_put_reset(c, drained->id, error);
    v2_note_closed(c, drained->id, END_BY_US);
    drained->id = 0;
    c->drain_count--;
}

static void forget(struct v2_connection *c, struct v2_drained *drained, enum v2_end how)
{
    v2_note_closed(c, drained->id, how);
    drained->id = 0;
    c->drain_count--;
}

static void fire(struct timer *timer)
{
    v2_drains_end(container_of(timer, struct v2_connection, drain_timer));
}

void v2_drains_init(struct v2_connection *c)
{
    timer_init(&c->drain_timer, fire);
}

void v2_drains_end(struct v2_connection *c)
{
    for (unsigned i = 0; i < DRAINS; i++) {
        if (c->drains[i].id != 0) {
            v2_drain_end(c, &c->drains[i], V2_NO_ERROR);
        }
    }
}

/* It cannot end by itself: more is left than its window has room for. */
static bool is_too_long(const struct v2_drained *drained)
{
    return drained->announced >= 0 &&
           drained->announced - (int64_t) drained->received > drained->window;
}

void v2_drain(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    const struct v2_drained left = {
        .id = stream->id,
        .announced = stream->is_websocket ? -1 : stream->request->incoming.length,
        .received = stream->body_bytes,
        .window = stream->recv_window,
        .send_window = stream->send_window,
    };
    struct v2_drained *drained = drained_find(c, 0);

    if (is_too_long(&left)) { /* curl waits for ever where this comes later than the response */
        v2_put_reset(c, left.id, V2_NO_ERROR);
        v2_note_closed(c, left.id, END_BY_US);
        return;
    }
    if (c->drain_count == 0) {
        drained = &c->drains[0];
        timer_set(&c->drain_timer, clock_now.now_ms + DRAIN_MS);
    } else if (drained == NULL) {
        drained = &c->drains[0];
        v2_drain_end(c, drained, V2_NO_ERROR);
    }
    *drained = left;
    c->drain_count++;
}

void v2_drains_shift(struct v2_connection *c, int64_t change)
{
    for (unsigned i = 0; i < DRAINS && c->drain_count != 0; i++) {
        c->drains[i].window += change;
    }
}

bool v2_drain_data(struct v2_connection *c, uint32_t id, size_t size, uint32_t padding,
                   bool is_last)
{
    struct v2_drained *drained = drained_find(c, id);

    if (drained == NULL) {
        return false;
    }
    drained->received += size;
    drained->window -= (int64_t) size + padding;
    bool is_wrong = drained->announced >= 0 &&
                    (drained->received > (uint64_t) drained->announced ||
                     (is_last && drained->received != (uint64_t) drained->announced));
    if (is_wrong || drained->window < 0) {
        if (v2_guard(c, GUARD_ERRORS)) {
            v2_drain_end(c, drained, is_wrong ? V2_PROTOCOL_ERROR : V2_FLOW_CONTROL_ERROR);
        }
    } else if (is_last) {
        forget(c, drained, END_WHOLE);
    }
    return true;
}

bool v2_drain_has(struct v2_connection *c, uint32_t id)
{
    return drained_find(c, id) != NULL;
}

void v2_drain_trailers(struct v2_connection *c, uint32_t id, bool is_sound)
{
    struct v2_drained *drained = drained_find(c, id);

    if (is_sound) {
        forget(c, drained, END_WHOLE);
    } else if (v2_guard(c, GUARD_ERRORS)) {
        v2_drain_end(c, drained, V2_PROTOCOL_ERROR);
    }
}

bool v2_drain_window(struct v2_connection *c, uint32_t id, uint32_t by)
{
    struct v2_drained *drained = drained_find(c, id);

    if (drained == NULL) {
        return false;
    }
    drained->send_window += by;
    if ((by == 0 || drained->send_window > WINDOW_MAX) && v2_guard(c, GUARD_ERRORS)) {
        v2_drain_end(c, drained, by == 0 ? V2_PROTOCOL_ERROR : V2_FLOW_CONTROL_ERROR);
    }
    return true;
}

bool v2_drain_reset(struct v2_connection *c, uint32_t id)
{
    struct v2_drained *drained = drained_find(c, id);

    if (drained == NULL) {
        return false;
    }
    forget(c, drained, END_BY_PEER);
    return true;
}
