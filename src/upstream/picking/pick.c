/* Picking a peer for a request, and giving it back. */
#include "base/clock.h"
#include "base/fatal.h"
#include "upstream/balancer_decision.h"
#include "upstream/private.h"
#include "upstream/servers.h"

/* Only this worker writes its own entry: no locked instruction is needed. */
#define USE_ADD(member, n)                                                                         \
    atomic_store_explicit(&(member), atomic_load_explicit(&(member), memory_order_relaxed) + (n),  \
                          memory_order_relaxed)

#define LOAD(member) atomic_load_explicit(&(member), memory_order_relaxed)

/* ---- may it serve? ---- */

/* Once something was tried. */
static bool was_tried(const struct upstream_pick *pick, const struct peer *peer)
{
    return (pick->tried[peer->number / 64] >> peer->number % 64 & 1) != 0;
}

/* Can the peer serve, apart from max_conns? */
static bool is_live(const struct upstream_pick *pick, const struct peer *peer, bool is_bound)
{
    const struct upstream_server *server = peer->server;

    if (peer_is_down(peer) || (server->is_draining && !is_bound) ||
        LOAD(peer->cell->is_unhealthy) != 0 || (pick->tried != NULL && was_tried(pick, peer))) {
        return false;
    }
    /* One that failed too often of late is tried again once in a fail_timeout. */
    return server->max_fails == 0 || LOAD(peer->cell->fails) < server->max_fails ||
           pick->list->is_single ||
           clock_now.now_ms - LOAD(peer->cell->checked_at_ms) > server->fail_timeout_ms;
}

bool peer_may_serve(const struct upstream_pick *pick, const struct peer *peer, bool is_bound)
{
    const struct upstream_server *server = peer->server;

    return is_live(pick, peer, is_bound) &&
           (server->max_conns == 0 || peer_active(peer->cell) < server->max_conns);
}

void peer_set_down(struct upstream_group *group, struct peer *peer, bool is_down)
{
    atomic_store(&peer->cell->order, is_down ? PEER_ORDERED_DOWN : PEER_ORDERED_UP);
    if (!is_down) {
        atomic_store(&peer->cell->fails, 0); /* an order that it is up ends its failures */
        queue_wake(group->worker_state); /* of other workers: the first who waits looks by itself */
    }
}

/* ---- choosing ---- */

/* Primary peers first; backups only when none of those may serve. */
static struct peer *choose(struct upstream_pick *pick)
{
    const struct stickiness *stickiness = pick->group->stickiness;
    const struct balancer *balancer = pick->group->balancer;
    struct peer_list *list = pick->list;
    struct peer *peer = NULL;

    if (stickiness != NULL) {
        if (pick->tries == 0) {
            pick->is_astray = false;
            pick->bound = stickiness->find(pick);
        }
        if (pick->bound != NULL && peer_may_serve(pick, pick->bound, true)) {
            return pick->bound;
        }
        if ((pick->bound != NULL || pick->is_astray) && stickiness->may_leave != NULL &&
            !stickiness->may_leave(pick)) {
            return NULL;
        }
    }
    if (__builtin_expect(pick->pinned != NULL, 0) && pick->tries == 0) {
        struct peer *own = pinned_peer(pick->pinned, pick);
        if (own != NULL && peer_may_serve(pick, own, true)) {
            return own;
        }
    }
    if (list->primary.count != 0) {
        peer = balancer->pick(pick, &list->primary);
    }
    if (peer == NULL && list->backup.count != 0) {
        peer = balancer->pick(pick, &list->backup);
    }
    return peer;
}

struct peer *pick_now(struct upstream_pick *pick)
{
    const struct upstream_group *group = pick->group;
    struct peer *peer = choose(pick);

    if (peer == NULL) {
        return NULL;
    }
    if (group->fallback == FALLBACK_SHUTDOWN && watch_has_failed(group, peer->server)) {
        pick->is_shut = true;
        return NULL;
    }
    pick->peer = peer;
    pick->picked_ms = clock_now.now_ms;
    pick->seen_list = 0;
    pick->tries++;
    if (pick->tried == NULL) {
        unsigned words = (pick->list->count + 63) / 64;

        pick->tried_few = 0;
        pick->tried =
            words <= 1 ? &pick->tried_few : arena_array(pick->arena, words, sizeof(*pick->tried));
    }
    pick->tried[peer->number / 64] |= (uint64_t) 1 << peer->number % 64;
    USE_ADD(peer_use_mine(peer->cell)->active, 1);
    atomic_store_explicit(&peer_use_mine(peer->cell)->selected_ms, pick->picked_ms,
                          memory_order_relaxed);
    if (LOAD(peer->cell->fails) != 0 &&
        clock_now.now_ms - LOAD(peer->cell->checked_at_ms) > peer->server->fail_timeout_ms) {
        /* The one that tries whether it is back; the others stay away for another fail_timeout. */
        atomic_store(&peer->cell->checked_at_ms, clock_now.now_ms);
    }
    if (group->balancer->picked != NULL) {
        group->balancer->picked(pick);
    }
    if (group->stickiness != NULL && group->stickiness->picked != NULL) {
        group->stickiness->picked(pick);
    }
    return peer;
}

/* ---- the steps ---- */

void upstream_group_hold(struct upstream_group *group)
{
    CHECK_MAGIC(group, UPSTREAM_GROUP_MAGIC);
    group->worker_state->users++;
}

void upstream_group_let_go(struct upstream_group *group)
{
    CHECK_MAGIC(group, UPSTREAM_GROUP_MAGIC);
    group->worker_state->users--;
}

void pick_hold(struct upstream_pick *pick, struct upstream_group *group)
{
    if (__builtin_expect(group->record != NULL, 0) && servers_have_changed(group)) {
        servers_sync(group);
    }
    pick->group = group;
    pick->list = group->peers;
    pick->list->references++;
    group->worker_state->users++;
}

void upstream_pick_begin(struct upstream_pick *pick, struct upstream_group *group)
{
    CHECK_MAGIC(group, UPSTREAM_GROUP_MAGIC);
    pick_hold(pick, group);
    if (__builtin_expect(group->balancer->direct != NULL, 0)) {
        balancer_decision_begin(pick);
    }
}

void pick_renew(struct upstream_pick *pick)
{
    struct peer_list *former = pick->list;

    if (former == pick->group->peers || pick->tries != 0) {
        return;
    }
    pick->list = pick->group->peers;
    pick->list->references++;
    pick->bound = NULL;
    peer_list_release(former);
}

static enum pick_result nobody(struct upstream_pick *pick, const char *why)
{
    log_error(pick->log, 0, "no live upstreams%s", why);
    return PICK_NONE;
}

static bool has_live(const struct upstream_pick *pick, const struct peer_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (is_live(pick, &set->peers[i], false)) {
            return true;
        }
    }
    return false;
}

bool pick_may_wait(const struct upstream_pick *pick)
{
    if (pick->list->count == 0) {
        return pick->tries == 0; /* servers may come: by the API, by a name, by discovery */
    }
    return pick->group->queues_at_max_conns
               ? has_live(pick, &pick->list->primary) || has_live(pick, &pick->list->backup)
               : upstream_pick_has_next(pick);
}

static enum pick_result pick_slowly(struct upstream_pick *pick)
{
    struct upstream_group *group = pick->group;
    bool has_next = upstream_pick_has_next(pick);

    if (pick->is_shut) {
        return nobody(pick, ", the name of the next server is not resolved");
    }
    if (pick->list->count == 0 && pick->tries == 0) {
        if (watch_wait(group) == WAIT_CANCELLED) {
            return PICK_CANCELLED;
        }
        pick_renew(pick);
        if (pick_now(pick) != NULL) {
            return PICK_OK;
        }
        has_next = upstream_pick_has_next(pick);
    }
    if (group->queue_max != 0 && pick_may_wait(pick)) {
        return queue_wait(pick);
    }
    if (pick->tries == 0 || has_next) {
        return nobody(pick, "");
    }
    return PICK_NONE;
}

enum pick_result upstream_pick_next(struct upstream_pick *pick)
{
    if (__builtin_expect(pick->group->worker_state->has_unused_names, 0)) {
        if (watch_first_use(pick->group) == WAIT_CANCELLED) {
            return PICK_CANCELLED;
        }
        pick_renew(pick);
    }
    if (__builtin_expect(pick->decision != NULL, 0) && !balancer_decision_leads(pick)) {
        return PICK_REFUSED;
    }
    /* A later request may not go before those that wait. */
    if (__builtin_expect(list_is_empty(&pick->group->worker_state->queue), 1) &&
        pick_now(pick) != NULL) {
        return PICK_OK;
    }
    return pick_slowly(pick);
}

static bool has_untried(const struct upstream_pick *pick, const struct peer_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (!peer_is_down(&set->peers[i]) &&
            (pick->tried == NULL || !was_tried(pick, &set->peers[i]))) {
            return true;
        }
    }
    return false;
}

bool upstream_pick_has_next(const struct upstream_pick *pick)
{
    if (pick->decision != NULL &&
        (pick->decision->more_tries != 0 || pick->decision->target != NULL)) {
        return pick->decision->more_tries != 0;
    }
    return !pick->is_shut &&
           (has_untried(pick, &pick->list->primary) || has_untried(pick, &pick->list->backup));
}

static bool is_listed(const struct peer_set *set, const struct peer *peer)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->peers[i].cell == peer->cell) {
            return true;
        }
    }
    return false;
}

bool upstream_pick_is_gone(struct upstream_pick *pick)
{
    servers_sync(pick->group);
    const struct peer_list *now = pick->group->peers;
    const struct peer *peer = pick->peer;

    if (peer == NULL) {
        return false;
    }
    if (peer_is_down(peer) || LOAD(peer->cell->is_unhealthy) != 0) {
        return true;
    }
    if (now == NULL || now == pick->list || now->number == pick->seen_list) {
        return false;
    }
    pick->seen_list = now->number;
    return !is_listed(&now->primary, peer) && !is_listed(&now->backup, peer);
}

void upstream_pick_connected(struct upstream_pick *pick)
{
    if (pick->peer != NULL && pick->group->balancer->connected != NULL) {
        pick->group->balancer->connected(pick);
    }
}

void upstream_pick_responded(struct upstream_pick *pick)
{
    const struct upstream_group *group = pick->group;

    if (pick->peer == NULL) {
        return;
    }
    if (group->balancer->responded != NULL) {
        group->balancer->responded(pick);
    }
    if (group->stickiness != NULL && group->stickiness->responded != NULL) {
        group->stickiness->responded(pick);
    }
}

/* ---- what became of it ---- */

static void count_failure(struct upstream_pick *pick, struct peer *peer)
{
    const struct upstream_server *server = peer->server;
    struct peer_cell *cell = peer->cell;

    atomic_fetch_add_explicit(&cell->failures, 1, memory_order_relaxed);
    if (pick->list->is_single || server->max_fails == 0) {
        return;
    }
    uint32_t fails = atomic_fetch_add(&cell->fails, 1) + 1;
    atomic_store(&cell->failed_at_ms, clock_now.now_ms);
    atomic_store(&cell->checked_at_ms, clock_now.now_ms);
    peer->effective_weight -= peer->weight / server->max_fails;
    if (peer->effective_weight < 0) {
        peer->effective_weight = 0;
    }
    if (fails == server->max_fails) {
        atomic_fetch_add_explicit(&cell->unavailable, 1, memory_order_relaxed);
        peer_went_down(cell);
    }
    if (fails >= server->max_fails) {
        log_warn(pick->log, 0, "upstream server temporarily disabled");
    }
}

/* It answered after it had failed. */
static void forgive(struct peer *peer)
{
    struct peer_cell *cell = peer->cell;
    uint32_t fails = LOAD(cell->fails);

    if (LOAD(cell->failed_at_ms) >= LOAD(cell->checked_at_ms)) {
        return; /* it was asked before it failed */
    }
    if (peer->server->max_fails != 0 && fails >= peer->server->max_fails) {
        atomic_store(&cell->up_at_ms, clock_now.now_ms == 0 ? 1 : clock_now.now_ms);
        if (LOAD(cell->is_unhealthy) == 0) {
            peer_came_up(cell);
        }
    }
    atomic_store(&cell->fails, 0);
}

void upstream_pick_done(struct upstream_pick *pick, enum peer_outcome outcome)
{
    const struct upstream_group *group = pick->group;
    struct peer *peer = pick->peer;

    if (peer == NULL) {
        return;
    }
    USE_ADD(peer_use_mine(peer->cell)->active, -1u);
    if (outcome == PEER_FAILED) {
        count_failure(pick, peer);
    } else if (outcome == PEER_SERVED) {
        if (LOAD(peer->cell->fails) != 0) {
            forgive(peer);
        }
        if (peer->effective_weight < peer->weight) {
            peer->effective_weight++;
        }
    }
    if (group->balancer->done != NULL) {
        group->balancer->done(pick, peer, outcome);
    }
    if (group->stickiness != NULL && group->stickiness->done != NULL) {
        group->stickiness->done(pick, outcome);
    }
    pick->peer = NULL;
    if (!list_is_empty(&group->worker_state->queue)) {
        queue_wake(group->worker_state);
    }
}

void upstream_pick_end(struct upstream_pick *pick)
{
    if (pick->list == NULL) {
        return;
    }
    upstream_pick_done(pick, PEER_UNTRIED);
    pick->group->worker_state->users--;
    peer_list_release(pick->list);
    pick->list = NULL;
    pick->tried = NULL;
}
