/* What several fibers give at one time, sent in the order of their places in a response. */
#include "http/request/ordered.h"
#include "http/request/body_filter.h"

#include <stdlib.h>

#include "base/fatal.h"

static struct ordered_place *first_of(struct ordered *ordered)
{
    return list_is_empty(&ordered->places)
               ? NULL
               : container_of(ordered->places.next, struct ordered_place, node);
}

static void piece_release(const struct body_piece *piece)
{
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
}

static void free_place(struct ordered_place *place)
{
    list_remove(&place->node);
    buf_free(&place->held);
    free(place);
}

/* What a request that was broken off has left. */
static void free_places(void *arg)
{
    struct ordered *ordered = arg;

    while (!list_is_empty(&ordered->places)) {
        free_place(first_of(ordered));
    }
}

void ordered_init(struct ordered *ordered, struct body_filter *filter, struct request *request)
{
    *ordered = (struct ordered){.filter = filter, .request = request};
    list_init(&ordered->places);
    arena_on_free(&request->arena, free_places, ordered);
}

/* ---- sending: one fiber at a time ---- */

/* Nobody waits for a turn any more. */
static void die(struct ordered *ordered)
{
    ordered->is_dead = true;
    wait_signal_later(&ordered->progress);
    list_each(item, &ordered->places) {
        wait_signal_later(&container_of(item, struct ordered_place, node)->room);
    }
}

static void send_now(struct ordered *ordered, const struct body_piece *piece, bool is_last)
{
    if (ordered->is_dead) {
        piece_release(piece);
        return;
    }
    ordered->is_sending = true;
    if (!body_filter_next(ordered->filter, ordered->request, piece, is_last)) {
        die(ordered);
    }
    ordered->is_sending = false;
}

/* Of the place in turn. More may be put there meanwhile. */
static void send_held(struct ordered *ordered, struct ordered_place *place)
{
    struct buf held = place->held;
    struct body_piece piece = {.bytes = buf_str(&held),
                               .fd = -1,
                               .is_volatile = true,
                               .is_flush = place->is_flush};

    place->held = (struct buf){0};
    place->is_flush = false;
    ordered->own_held -= place->is_own ? held.len : 0;
    send_now(ordered, &piece, false);
    buf_free(&held);
}

/* Sends what is due, as far as it is there, unless another fiber is at it already. */
static void send_due(struct ordered *ordered)
{
    struct ordered_place *place;

    while (!ordered->is_sending && (place = first_of(ordered)) != NULL) {
        if (place->held.len != 0 || place->is_flush) {
            send_held(ordered, place);
        } else if (place->has_ended) {
            free_place(place);
            wait_signal_later(&ordered->progress);
        } else {
            wait_signal_later(&place->room);
            return;
        }
    }
}

/* ---- giving ---- */

static bool is_in_turn(const struct ordered_place *place)
{
    return place->node.prev == &place->ordered->places && !place->ordered->is_sending &&
           place->held.len == 0 && !place->is_flush;
}

static void piece_hold(struct ordered_place *place, const struct body_piece *piece)
{
    buf_append(&place->held, piece->bytes);
    place->is_flush |= piece->is_flush;
    piece_release(piece);
}

/* Pieces of files are held by nobody: they wait, for their bytes are safe where they are. */
static bool can_hold(const struct body_piece *piece, size_t held, size_t most)
{
    return (piece->bytes.data != NULL || piece->size == 0) && held + piece->bytes.len <= most;
}

static bool place_send(struct body_filter *filter, struct request *request,
                       const struct body_piece *piece, bool is_last)
{
    struct ordered_place *place = container_of(filter, struct ordered_place, filter);
    struct ordered *ordered = place->ordered;

    if (piece == NULL) {
        return !ordered->is_dead;
    }
    while (!is_in_turn(place) && !ordered->is_dead) {
        if (can_hold(piece, place->held.len, ORDERED_HELD_MAX)) {
            piece_hold(place, piece);
            return true;
        }
        if (fiber_wait(&place->room, FIBER_NEVER) == WAIT_CANCELLED) {
            piece_release(piece);
            return false;
        }
    }
    send_now(ordered, piece, false);
    send_due(ordered);
    return !ordered->is_dead;
}

struct ordered_place *ordered_place(struct ordered *ordered)
{
    struct ordered_place *place = calloc(1, sizeof(*place));

    if (place == NULL) {
        fatal_no_memory(sizeof(*place));
    }
    place->ordered = ordered;
    place->filter.send = place_send;
    list_push_back(&ordered->places, &place->node);
    return place;
}

void ordered_end(struct ordered_place *place)
{
    place->has_ended = true;
    send_due(place->ordered);
}

/* ---- the owner ---- */

/* After all places: the last one, if that is of such. */
static void hold_own(struct ordered *ordered, const struct body_piece *piece)
{
    struct ordered_place *last = container_of(ordered->places.prev, struct ordered_place, node);

    if (!last->is_own) {
        last = ordered_place(ordered);
        last->is_own = last->has_ended = true;
    }
    ordered->own_held += piece->bytes.len;
    piece_hold(last, piece);
}

static bool is_free(const struct ordered *ordered)
{
    return list_is_empty(&ordered->places) && !ordered->is_sending;
}

bool ordered_send(struct ordered *ordered, const struct body_piece *piece, bool is_last)
{
    while (!is_free(ordered) && !ordered->is_dead) {
        if (!list_is_empty(&ordered->places) && piece != NULL && !is_last &&
            can_hold(piece, ordered->own_held, ORDERED_OWN_MAX)) {
            hold_own(ordered, piece);
            return true;
        }
        if (fiber_wait(&ordered->progress, FIBER_NEVER) == WAIT_CANCELLED) {
            piece_release(piece);
            return false;
        }
    }
    send_now(ordered, piece, is_last);
    return !ordered->is_dead;
}

uint64_t ordered_backlog(const struct ordered_place *place)
{
    if (is_in_turn(place)) {
        return 0;
    }
    return place->held.len < ORDERED_HELD_MAX / 2 ? place->held.len : UINT64_MAX / 2;
}
