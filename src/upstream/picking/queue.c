/* `queue`: requests that wait for a peer, in the order of coming. */
#include "base/clock.h"
#include "upstream/private.h"
#include "upstream/servers.h"

/* Peers that other workers give back are noticed so late at most. */
#define POLL_MS 5

/* One request; on its fiber's stack. */
struct queued {
    struct list node; /* in group_state.queue */
    struct wait_point wake;
};

static struct queued *first_of(struct group_state *state)
{
    return list_is_empty(&state->queue) ? NULL
                                        : container_of(state->queue.next, struct queued, node);
}

void queue_wake(struct group_state *state)
{
    struct queued *first = first_of(state);

    if (first != NULL) {
        wait_signal_later(&first->wake);
    }
}

static unsigned length_of(struct group_state *state)
{
    unsigned n = 0;

    list_each(item, &state->queue) {
        n++;
    }
    return n;
}

/* The first looks for a peer, now and then; the others wait to become the first. */
static enum pick_result wait_for_turn(struct upstream_pick *pick, struct queued *self,
                                      uint64_t deadline_ms)
{
    struct group_state *state = pick->group->worker_state;

    for (;;) {
        bool is_first = first_of(state) == self;
        uint64_t poll_ms = clock_now.now_ms + POLL_MS;

        servers_sync(pick->group);
        pick_renew(pick);
        if (is_first && pick_now(pick) != NULL) {
            return PICK_OK;
        }
        if (pick->is_shut || clock_now.now_ms >= deadline_ms ||
            (is_first && !pick_may_wait(pick))) {
            return PICK_NONE;
        }
        if (fiber_wait(&self->wake, is_first && poll_ms < deadline_ms ? poll_ms : deadline_ms) ==
            WAIT_CANCELLED) {
            return PICK_CANCELLED;
        }
    }
}

enum pick_result queue_wait(struct upstream_pick *pick)
{
    const struct upstream_group *group = pick->group;
    struct group_state *state = group->worker_state;
    uint64_t start_ms = clock_now.now_ms;
    struct queued self = {.wake = {0}};

    struct servers_queue *counted = servers_queue_of(group);

    if (length_of(state) >= group->queue_max) {
        if (counted != NULL) {
            counted->overflows++;
        }
        log_error(pick->log, 0, "no live upstreams, the queue of %u is full", group->queue_max);
        return PICK_NONE;
    }
    if (counted != NULL) {
        ++*servers_queue_mine(counted);
    }
    list_push_back(&state->queue, &self.node);
    enum pick_result result = wait_for_turn(pick, &self, start_ms + group->queue_timeout_ms);
    list_remove(&self.node);
    if (counted != NULL) {
        --*servers_queue_mine(counted);
    }
    pick->queued_ms += clock_now.now_ms - start_ms;
    queue_wake(state); /* the next one may find somebody, too, and has to look from now on */
    if (result == PICK_NONE) {
        log_error(pick->log, 0, "no live upstreams, waited in the queue for %llu ms",
                  (unsigned long long) (clock_now.now_ms - start_ms));
    }
    return result;
}
