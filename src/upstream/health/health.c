/* Active health checks: the effect of results on a peer. */
#include "upstream/health.h"

#include "base/clock.h"
#include "upstream/health/private.h"

/* Time after a probe's timeout at which its worker or node counts as dead. */
#define SPARE_MS 1000

uint64_t health_lost_after_ms(const struct health_settings *settings)
{
    return settings->timeout_ms + SPARE_MS;
}

/* ---- results ---- */

/* Has the cell results from an earlier generation? */
static bool was_checked(const struct peer_check *check)
{
    return atomic_load(&check->rise) != 0 || atomic_load(&check->fall) != 0;
}

void health_begin_peer(const struct health_settings *settings, unsigned index,
                       const struct peer *peer, uint64_t first_ms)
{
    struct peer_check *check = &peer->cell->checks[index];
    uint64_t never = 0;

    if (atomic_load(&check->next_ms) != 0) {
        return;
    }
    if (settings->is_down_at_first && !(settings->is_persistent && was_checked(check))) {
        atomic_store(&check->rise, 0);
        atomic_fetch_or(&peer->cell->is_unhealthy, 1u << index);
    }
    /* A second worker does the same; if that comes after a probe, the next probe corrects it. */
    atomic_compare_exchange_strong(&check->next_ms, &never, first_ms == 0 ? 1 : first_ms);
}

/* Enough successful probes: this check counts the peer as healthy. */
static void turn_healthy(const struct health_subject *subject, const struct log *log)
{
    struct peer_cell *cell = subject->peer->cell;
    uint32_t bit = 1u << subject->index;
    uint32_t before = atomic_fetch_and(&cell->is_unhealthy, ~bit);

    if ((before & bit) == 0) {
        return; /* another worker was first */
    }
    if (before != bit) {
        log_error(log, 0,
                  "peer is healthy, health check \"%.*s\" of peer %.*s in upstream \"%.*s\", "
                  "but another check reports it as unhealthy",
                  STR_ARG(subject->settings->name), STR_ARG(subject->peer->name),
                  STR_ARG(subject->group->name));
        return;
    }
    atomic_store(&cell->fails, 0);
    peer_came_up(cell);
    atomic_store(&cell->up_at_ms, clock_now.now_ms == 0 ? 1 : clock_now.now_ms);
    log_error(log, 0,
              "peer is healthy, health check \"%.*s\" of peer %.*s in upstream \"%.*s\": "
              "enable check peer: %.*s",
              STR_ARG(subject->settings->name), STR_ARG(subject->peer->name),
              STR_ARG(subject->group->name), STR_ARG(subject->peer->name));
}

static void turn_unhealthy(const struct health_subject *subject, const struct health_result *result,
                           const struct log *log)
{
    uint32_t bit = 1u << subject->index;

    if ((atomic_fetch_or(&subject->peer->cell->is_unhealthy, bit) & bit) != 0) {
        return;
    }
    atomic_fetch_add(&subject->peer->cell->checks[subject->index].turns, 1);
    peer_went_down(subject->peer->cell);
    log_error(log, result->error,
              "peer is unhealthy while checking %s, health check \"%.*s\" of peer %.*s in upstream "
              "\"%.*s\": disable check peer: %.*s",
              result->reason, STR_ARG(subject->settings->name), STR_ARG(subject->peer->name),
              STR_ARG(subject->group->name), STR_ARG(subject->peer->name));
}

void health_learn(const struct health_subject *subject, bool is_healthy, uint64_t wait_ms)
{
    static const struct health_result result = {.reason = "another node's probes"};
    struct peer_check *check = &subject->peer->cell->checks[subject->index];

    if (clock_now.now_ms < atomic_load(&check->leads_until_ms)) {
        return;
    }
    atomic_store(&check->next_ms, clock_now.now_ms + wait_ms);
    atomic_store(&check->rise, is_healthy);
    atomic_store(&check->fall, !is_healthy);
    if (is_healthy) {
        turn_healthy(subject, &subject->settings->log);
    } else {
        turn_unhealthy(subject, &result, &subject->settings->log);
    }
}

void health_settle(const struct health_subject *subject, const struct health_result *result,
                   const struct log *log)
{
    struct peer_check *check = &subject->peer->cell->checks[subject->index];
    bool is_unhealthy =
        (atomic_load(&subject->peer->cell->is_unhealthy) & 1u << subject->index) != 0;

    atomic_fetch_add(&check->probes, 1);
    if (result->is_good) {
        atomic_store(&check->fall, 0);
        if (atomic_fetch_add(&check->rise, 1) + 1 >= subject->settings->passes && is_unhealthy) {
            turn_healthy(subject, log);
        }
        return;
    }
    atomic_fetch_add(&check->failures, 1);
    atomic_store(&check->rise, 0);
    if (atomic_fetch_add(&check->fall, 1) + 1 >= subject->settings->fails && !is_unhealthy) {
        turn_unhealthy(subject, result, log);
    } else {
        log_info(log, result->error,
                 "health check \"%.*s\" of peer %.*s in upstream \"%.*s\" failed while checking %s",
                 STR_ARG(subject->settings->name), STR_ARG(subject->peer->name),
                 STR_ARG(subject->group->name), result->reason);
    }
}

/* ---- status pages ---- */

/* The arguments of health_each_peer. */
struct peer_walk {
    void (*visit)(const struct upstream_group *group, const struct peer *peer, void *arg);
    void *arg;
};

static void visit_checked(struct upstream_group *group, void *arg)
{
    const struct peer_walk *walk = arg;
    const struct peer_list *list = group->peers;

    if (group->health == NULL || list == NULL) {
        return;
    }
    for (unsigned i = 0; i < list->primary.count; i++) {
        walk->visit(group, &list->primary.peers[i], walk->arg);
    }
    for (unsigned i = 0; i < list->backup.count; i++) {
        walk->visit(group, &list->backup.peers[i], walk->arg);
    }
}

void health_each_peer(const struct upstream_set *set,
                      void (*visit)(const struct upstream_group *group, const struct peer *peer,
                                    void *arg),
                      void *arg)
{
    struct peer_walk walk = {visit, arg};

    vec_each(struct upstream_group *, group, &set->groups) {
        visit_checked(*group, &walk);
    }
    if (set->each_changed != NULL) {
        set->each_changed(visit_checked, &walk);
    }
}
