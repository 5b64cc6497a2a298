/*
 * Tails: what is left of an answer that is in memory or in files. The stream holds it, and it is
 * sent as windows open and turns come, on the loop's stack: a client that does not read keeps no
 * fiber.
 */
#include "base/clock.h"
#include "http/request/pace.h"
#include "http/v2/v2.h"

/* Bytes of a piece whose memory is used again that are worth a copy, rather than a fiber that
 * waits. */
#define COPY_MAX (64 * 1024)

/* A piece that is held. */
struct held {
    struct held *next;
    struct body_piece piece;
    uint64_t done; /* bytes that were sent of it */
    uint64_t size; /* of the piece */
};

static void held_release(struct held *held)
{
    if (held->piece.release != NULL) {
        held->piece.release(held->piece.release_arg);
    }
}

static void tail_drop(struct v2_stream *stream)
{
    struct v2_tail *tail = stream->tail;

    stream->tail = NULL;
    timer_remove(&tail->timer);
    stream->request->is_completed &= tail->first == NULL;
    for (struct held *held = tail->first; held != NULL; held = held->next) {
        held_release(held);
    }
    v2_stream_settled(stream);
}

static void fire(struct timer *timer)
{
    struct v2_tail *tail = container_of(timer, struct v2_tail, timer);
    struct v2_stream *stream = tail->stream;
    if (!pace_send_ended(stream->request, stream->body_given)) {
        v2_tail_drop(stream);
        return;
    }
    uint64_t until_ms = v2_io_deadline(stream);
    if (until_ms > clock_now.now_ms) {
        timer_set(&tail->timer, pace_send_begins(stream->request, stream->body_given, until_ms));
        return;
    }
    v2_give_up(stream);
    v2_tail_drop(stream);
}

/* False: there is no more to be done now, or ever. */
static bool send_some(struct v2_stream *stream, struct v2_tail *tail)
{
    struct held *held = tail->first;
    uint64_t left = held->size - held->done;
    size_t granted = v2_try_grant(stream, left);

    if (granted == 0) {
        return false;
    }
    bool is_last = tail->is_whole && held->next == NULL;
    size_t sent = v2_put_frames(stream, &held->piece, held->done, granted, is_last);
    if (stream->tail != tail) {
        return false; /* a guard has ended the connection */
    }
    if (sent == 0) {
        v2_tail_drop(stream);
        return false;
    }
    held->done += sent;
    if (held->done == held->size) {
        tail->first = held->next;
        held_release(held);
    }
    return true;
}

static void go(struct v2_stream *stream)
{
    struct v2_tail *tail = stream->tail;

    while (tail->first != NULL) {
        if (!send_some(stream, tail)) {
            return;
        }
    }
    timer_remove(&tail->timer);
    stream->stalled_until_ms = 0;
    if (tail->is_whole && !stream->is_output_ended) {
        v2_put_end(stream);
    }
    if (tail->is_whole || stream->has_ended) {
        v2_tail_drop(stream);
    }
}

static struct v2_tail *tail_of(struct v2_stream *stream)
{
    struct v2_tail *tail = stream->tail;

    if (tail == NULL) {
        tail = arena_new(&stream->request->arena, struct v2_tail);
        tail->stream = stream;
        tail->go = go;
        tail->drop = tail_drop;
        timer_init(&tail->timer, fire);
        stream->tail = tail;
    }
    return tail;
}

bool v2_tail_may_hold(const struct v2_stream *stream, const struct body_piece *piece, uint64_t left,
                      bool is_last)
{
    const struct request *request = stream->request;

    return (is_last || stream->is_leaving) && request->delivery.limit_rate == 0 &&
           request->response.framing != FRAMING_TUNNEL &&
           (stream->is_leaving || !piece->is_volatile || left <= COPY_MAX);
}

void v2_tail_hold(struct v2_stream *stream, const struct body_piece *piece, uint64_t from,
                  uint64_t size)
{
    struct arena *arena = &stream->request->arena;
    struct v2_tail *tail = tail_of(stream);
    struct held *held = arena_alloc(arena, sizeof(*held));

    *held = (struct held){.piece = *piece, .done = from, .size = size};
    if (piece->is_volatile) {
        struct str rest = str_skip(piece->bytes, (size_t) from);

        arena_allow(arena, rest.len);
        held_release(held);
        held->piece = (struct body_piece){.bytes = arena_dup(arena, rest), .fd = -1};
        held->done = 0;
        held->size = rest.len;
    }
    if (tail->first == NULL) {
        tail->first = held;
        timer_set(&tail->timer,
                  pace_send_begins(stream->request, stream->body_given, v2_io_deadline(stream)));
    } else {
        tail->last->next = held;
    }
    tail->last = held;
}

void v2_tail_end(struct v2_stream *stream)
{
    stream->tail->is_whole = true;
}
