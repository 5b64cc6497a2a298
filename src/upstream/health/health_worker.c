/* Active health checks in a worker: one fiber that starts probes when they are due, and a fiber for
 * each probe. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "upstream/health/private.h"

enum {
    PROBES_MAX = 256,     /* simultaneous probes of a worker */
    LOOK_EVERY_MS = 1000, /* peers may have changed since */
};

static struct list workers = {&workers, &workers};

/* ---- scheduling ---- */

/* When the probe is due for this worker. Workers that did not make the last probe wait a little
 * longer, so that the same worker continues, with the connection that it has. */
static uint64_t due_time(const struct prober *prober)
{
    uint64_t due = atomic_load(&prober->cell->checks[prober->index].next_ms);
    uint64_t grace_ms = prober->settings->interval_ms / 2;

    if (!prober->is_ours && atomic_load(&prober->cell->checks[prober->index].probes) != 0) {
        due += grace_ms < LOOK_EVERY_MS ? grace_ms : LOOK_EVERY_MS;
    }
    return due;
}

/* Starts the probe if it is due and no other worker has claimed it. Gives the time to look again;
 * *is_full: no further probe can be started now. */
static uint64_t look_at_prober(struct prober *prober, bool *is_full)
{
    uint64_t now = clock_now.now_ms;
    uint64_t due;
    uint64_t next;

    if (prober->run != NULL || prober->leader != NULL) {
        return UINT64_MAX;
    }
    due = due_time(prober);
    if (due > now) {
        return due;
    }
    next = atomic_load(&prober->cell->checks[prober->index].next_ms);
    if (next > now) {
        return next;
    }
    uint64_t claim = now + health_lost_after_ms(prober->settings);
    if (!atomic_compare_exchange_strong(&prober->cell->checks[prober->index].next_ms, &next,
                                        claim)) {
        prober->is_ours = false;
        health_drop_conn(prober);
        return next;
    }
    if (!health_start_probe(prober, claim)) {
        *is_full = true;
        return atomic_load(&prober->cell->checks[prober->index].next_ms);
    }
    return UINT64_MAX;
}

/* The prober at this position, or the next one that exists. */
static struct prober *prober_at(const struct health_worker *worker, unsigned *group,
                                unsigned *index)
{
    while (*index >= worker->groups[*group].count) {
        *index = 0;
        *group = (*group + 1) % worker->group_count;
    }
    return worker->groups[*group].probers[*index];
}

/* Looks at all checks. Gives the time to look again. */
static uint64_t look_around(struct health_worker *worker)
{
    uint64_t soonest = clock_now.now_ms + LOOK_EVERY_MS;
    unsigned group = worker->first_group, index = worker->first, count = 0;
    bool has_changed = false;
    bool is_ok = true;

    for (unsigned w = 0; w < worker->group_count; w++) {
        has_changed |= health_renew_group(&worker->groups[w], &is_ok);
        count += worker->groups[w].count;
    }
    if (!is_ok) {
        log_alert(&worker->set->log, ENOMEM, "some peers are not checked");
    }
    if (has_changed) {
        health_choose_leaders(worker);
    }
    for (unsigned n = 0; n < count; n++, index++) {
        struct prober *prober = prober_at(worker, &group, &index);
        bool is_full = worker->running >= PROBES_MAX;

        if (!is_full) {
            uint64_t again = look_at_prober(prober, &is_full);
            soonest = again < soonest ? again : soonest;
        }
        if (is_full) {
            /* The next look begins with the probers that were left out now. */
            worker->first_group = group;
            worker->first = index;
            break;
        }
    }
    return soonest;
}

static void run_scheduler(void *arg)
{
    struct health_worker *worker = arg;

    worker->fiber = fiber_self();
    while (!fiber_is_cancelled() && !worker->is_ending) {
        uint64_t again = look_around(worker);
        if (fiber_wait(&worker->wake, again) == WAIT_CANCELLED) {
            break;
        }
    }
    worker->fiber = NULL;
    health_free_if_idle(worker);
}

/* ---- start and end ---- */

static void free_worker(struct health_worker *worker)
{
    for (unsigned w = 0; w < worker->group_count; w++) {
        struct checked_group *checked = &worker->groups[w];
        for (unsigned i = 0; i < checked->count; i++) {
            health_free_prober(checked->probers[i]);
        }
        free(checked->probers);
        if (checked->pick.list != NULL) {
            upstream_pick_end(&checked->pick);
        }
        arena_free(&checked->arena);
    }
    free(worker->groups);
    free(worker);
}

/* Frees the worker's state after the last of its fibers has ended. */
void health_free_if_idle(struct health_worker *worker)
{
    if (worker->is_ending && worker->running == 0 && worker->fiber == NULL) {
        free_worker(worker);
    }
}

/* Sets the log of a check: that of its block, or else that of the set. */
static void set_log(struct health_settings *check, const struct upstream_set *set)
{
    check->log = set->log;
    if (check->error_log != NULL && *check->error_log != NULL &&
        *check->error_log != set->generation->core->error_log) {
        check->log.sinks = *check->error_log;
        check->log.level = log_chain_level(check->log.sinks);
    }
}

/* Adds the groups of the set that have checks. False: no memory. */
static bool add_groups(struct health_worker *worker, struct upstream_set *set)
{
    bool is_ok = true;

    worker->groups = calloc(set->groups.count + 1, sizeof(*worker->groups));
    if (worker->groups == NULL) {
        return false;
    }
    vec_each(struct upstream_group *, group, &set->groups) {
        if ((*group)->health == NULL) {
            continue;
        }
        struct checked_group *checked = &worker->groups[worker->group_count++];
        for (struct health_settings *check = (*group)->health; check != NULL; check = check->next) {
            set_log(check, set);
        }
        checked->worker = worker;
        checked->group = *group;
        arena_init(&checked->arena);
        health_renew_group(checked, &is_ok);
    }
    health_choose_leaders(worker);
    return is_ok;
}

bool health_worker_start(struct upstream_set *set)
{
    struct health_worker *worker = calloc(1, sizeof(*worker));

    if (worker == NULL) {
        return false;
    }
    list_init(&worker->runs);
    worker->set = set;
    bool is_ok = add_groups(worker, set);
    if (!is_ok || worker->group_count == 0) {
        free_worker(worker);
        return is_ok;
    }
    list_push_back(&workers, &worker->in_process);
    if (fiber_start(run_scheduler, worker, NULL) == FIBER_NO_STACK) {
        list_remove(&worker->in_process);
        free_worker(worker);
        return false;
    }
    return true;
}

/* Cancels all fibers, and closes idle connections. */
static void end_worker(struct health_worker *worker)
{
    worker->is_ending = true;
    list_each(item, &worker->runs) {
        struct probe_run *run = container_of(item, struct probe_run, in_worker);
        if (run->fiber != NULL) {
            fiber_cancel(run->fiber);
        }
    }
    if (worker->fiber != NULL) {
        fiber_cancel(worker->fiber);
    }
    for (unsigned w = 0; w < worker->group_count; w++) {
        for (unsigned i = 0; i < worker->groups[w].count; i++) {
            health_drop_conn(worker->groups[w].probers[i]);
        }
    }
    health_free_if_idle(worker);
}

void health_worker_quit(struct upstream_set *set)
{
    list_each(item, &workers) {
        struct health_worker *worker = container_of(item, struct health_worker, in_process);
        if (worker->set == set) {
            list_remove(&worker->in_process);
            end_worker(worker);
        }
    }
}
