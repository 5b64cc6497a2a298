/* What a worker does for its groups when it begins and when it ends. */
#include <stdlib.h>

#include "base/fatal.h"
#include "upstream/health.h"
#include "upstream/private.h"

/* Newest first. A process that is its own master has several while old connections last. */
static struct upstream_set *running;

static void set_each(const struct upstream_set *set,
                     void (*visit)(struct upstream_group *group, void *arg), void *arg)
{
    vec_each(struct upstream_group *, group, &set->groups) {
        if ((*group)->worker_state != NULL) {
            visit(*group, arg);
        }
    }
}

void groups_each(void (*visit)(struct upstream_group *group, void *arg), void *arg)
{
    for (const struct upstream_set *set = running; set != NULL; set = set->next) {
        set_each(set, visit, arg);
    }
    run_time_each(visit, arg);
}

/* Off the list; its generation may have gone without an end. */
static void set_stop(void *arg)
{
    struct upstream_set *set = arg;
    struct upstream_set **link = &running;

    while (*link != NULL && *link != set) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = set->next;
        set->is_running = false;
        if (running == NULL) {
            pools_worker_end();
        }
    }
}

static void set_run(struct upstream_set *set)
{
    if (running == NULL) {
        pools_worker_start();
    }
    set->next = running;
    running = set;
    set->is_running = true;
    set->is_quitting = false;
    arena_on_free(&set->generation->arena, set_stop, set);
}

void group_start(struct upstream_group *group, struct run_time_group *run_time)
{
    struct group_state *state = calloc(1, sizeof(*state));

    if (state == NULL) {
        fatal_no_memory(sizeof(*state));
    }
    list_init(&state->pools);
    list_init(&state->queue);
    list_init(&state->resolving);
    state->run_time = run_time;
    group->worker_state = state;
    watch_prepare(group);
    peers_renew(group);
    if (group->balancer == &balancer_round_robin) {
        round_robin_discard(group->set, &group->peers->primary);
        round_robin_discard(group->set, &group->peers->backup);
    }
}

/* Of groups that ended before their requests: known here, as what they belonged to may be freed before the process ends. */
static struct group_state *left_behind;

void group_end(struct upstream_group *group)
{
    struct group_state *state = group->worker_state;

    if (state == NULL) {
        return;
    }
    pools_close(state);
    if (state->users != 0) {
        state->left =
            left_behind; /* a request was dropped where it stood: the process ends with it */
        left_behind = state;
        return;
    }
    peer_list_release(group->peers);
    group->peers = NULL;
    watch_free(state);
    pools_free(state);
    group->worker_state = NULL;
    free(state);
}

static void close_idle(struct upstream_group *group, void *arg)
{
    (void) arg;
    pools_close(group->worker_state);
}

bool upstream_worker_start(struct generation *generation)
{
    struct upstream_set *set = upstream_set_of(&generation->conf);

    if (set->memory == NULL || set->is_running) {
        return true; /* there is no http block */
    }
    set_run(set);
    cells_worker_start(set);
    vec_each(struct upstream_group *, group, &set->groups) {
        group_start(*group, NULL);
        if (!watch_start(*group)) {
            log_emerg(log_main, 0, "no memory to watch the names of upstream \"%.*s\"",
                      STR_ARG((*group)->name));
            return false;
        }
    }
    return health_worker_start(set);
}

void upstream_worker_quit(struct generation *generation)
{
    struct upstream_set *set = upstream_set_of(&generation->conf);

    if (!set->is_running) {
        return;
    }
    set->is_quitting = true;
    health_worker_quit(set);
    vec_each(struct upstream_group *, group, &set->groups) {
        watch_quit(*group);
    }
    set_each(set, close_idle, NULL);
    run_time_each(close_idle, NULL);
}

void upstream_worker_end(struct generation *generation)
{
    struct upstream_set *set = upstream_set_of(&generation->conf);

    if (!set->is_running) {
        return;
    }
    run_time_end(set);
    vec_each(struct upstream_group *, group, &set->groups) {
        group_end(*group);
    }
    cells_worker_end(set);
    set_stop(set);
}
