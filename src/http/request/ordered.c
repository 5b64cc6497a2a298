/* What several fibers give at one time, sent in the order of their places in a response. */
#include "http/request/ordered.h"
#include "http/request/body_filter.h"

#include <stdlib.h>

#include "base/fatal.h"

static struct ordered_slot *first_of(struct ordered *ordered)
{
    return list_is_empty(&ordered->slots)
               ? NULL
               : container_of(ordered->slots.next, struct ordered_slot, node);
}

static void piece_release(const struct body_piece *piece)
{
    if (piece != NULL && piece->release != NULL) {
        piece->release(piece->release_arg);
    }
}

static void free_place(struct ordered_slot *slot)
{
    list_remove(&slot->node);
    buf_free(&slot->held);
    free(slot);
}

/* What a request that was broken off has left. */
static void free_slots(void *arg)
{
    struct ordered *ordered = arg;

    while (!list_is_empty(&ordered->slots)) {
        free_place(first_of(ordered));
    }
}

void ordered_init(struct ordered *ordered, struct body_filter *filter, struct request *request)
{
    *ordered = (struct ordered){.filter = filter, .request = request};
    list_init(&ordered->slots);
    arena_on_free(&request->arena, free_slots, ordered);
}

/* ---- sending: one fiber at a time ---- */

/* Nobody waits for a turn any more. */
static void die(struct ordered *ordered)
{
    ordered->is_dead = true;
    wait_signal_later(&ordered->progress);
    list_each(item, &ordered->slots) {
        wait_signal_later(&container_of(item, struct ordered_slot, node)->room);
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
static void send_held(struct ordered *ordered, struct ordered_slot *slot)
{
    struct buf held = slot->held;
    struct body_piece piece = {.bytes = buf_str(&held),
                               .fd = -1,
                               .is_volatile = true,
                               .is_flush = slot->is_flush};

    slot->held = (struct buf){0};
    slot->is_flush = false;
    ordered->own_held -= slot->is_own ? held.len : 0;
    send_now(ordered, &piece, false);
    buf_free(&held);
}

/* Sends what is due, as far as it is there, unless another fiber is at it already. */
static void send_due(struct ordered *ordered)
{
    struct ordered_slot *slot;

    while (!ordered->is_sending && (slot = first_of(ordered)) != NULL) {
        if (slot->held.len != 0 || slot->is_flush) {
            send_held(ordered, slot);
        } else if (slot->has_ended) {
            free_place(slot);
            wait_signal_later(&ordered->progress);
        } else {
            wait_signal_later(&slot->room);
            return;
        }
    }
}

/* ---- giving ---- */

static bool is_in_turn(const struct ordered_slot *slot)
{
    return slot->node.prev == &slot->ordered->slots && !slot->ordered->is_sending &&
           slot->held.len == 0 && !slot->is_flush;
}

static void piece_hold(struct ordered_slot *slot, const struct body_piece *piece)
{
    buf_append(&slot->held, piece->bytes);
    slot->is_flush |= piece->is_flush;
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
    struct ordered_slot *slot = container_of(filter, struct ordered_slot, filter);
    struct ordered *ordered = slot->ordered;

    if (piece == NULL) {
        return !ordered->is_dead;
    }
    while (!is_in_turn(slot) && !ordered->is_dead) {
        if (can_hold(piece, slot->held.len, ORDERED_HELD_MAX)) {
            piece_hold(slot, piece);
            return true;
        }
        if (fiber_wait(&slot->room, FIBER_NEVER) == WAIT_CANCELLED) {
            piece_release(piece);
            return false;
        }
    }
    send_now(ordered, piece, false);
    send_due(ordered);
    return !ordered->is_dead;
}

struct ordered_slot *ordered_slot(struct ordered *ordered)
{
    struct ordered_slot *slot = calloc(1, sizeof(*slot));

    if (slot == NULL) {
        fatal_no_memory(sizeof(*slot));
    }
    slot->ordered = ordered;
    slot->filter.send = place_send;
    list_push_back(&ordered->slots, &slot->node);
    return slot;
}

void ordered_end(struct ordered_slot *slot)
{
    slot->has_ended = true;
    send_due(slot->ordered);
}

/* ---- the owner ---- */

/* After all places: the last one, if that is of such. */
static void hold_own(struct ordered *ordered, const struct body_piece *piece)
{
    struct ordered_slot *last = container_of(ordered->slots.prev, struct ordered_slot, node);

    if (!last->is_own) {
        last = ordered_slot(ordered);
        last->is_own = last->has_ended = true;
    }
    ordered->own_held += piece->bytes.len;
    piece_hold(last, piece);
}

static bool is_free(const struct ordered *ordered)
{
    return list_is_empty(&ordered->slots) && !ordered->is_sending;
}

bool ordered_send(struct ordered *ordered, const struct body_piece *piece, bool is_last)
{
    while (!is_free(ordered) && !ordered->is_dead) {
        if (!list_is_empty(&ordered->slots) && piece != NULL && !is_last &&
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

uint64_t ordered_backlog(const struct ordered_slot *slot)
{
    if (is_in_turn(slot)) {
        return 0;
    }
    return slot->held.len < ORDERED_HELD_MAX / 2 ? slot->held.len : UINT64_MAX / 2;
}
