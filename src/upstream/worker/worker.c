/* What a worker does for its groups when it begins and when it ends. */
#include "upstream/health.h"
#include "upstream/private.h"

/* Newest first. A process that is its own master has several while old connections last. */
static struct upstream_set *running;

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
        vec_each(struct upstream_group *, group, &set->groups) {
            if ((*group)->worker_state != NULL) {
                pools_forget((*group)->worker_state);
            }
        }
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
    set->log = (struct log){.sinks = log_main->sinks, .level = log_main->level};
    if (set->error_log != NULL && *set->error_log != NULL &&
        *set->error_log != set->generation->core->error_log) {
        set->log.sinks = *set->error_log;
        set->log.level = log_chain_level(set->log.sinks);
    }
    arena_on_free(set->arena, set_stop, set);
}

static void close_idle(struct upstream_group *group, void *set)
{
    if (group->set == set && group->worker_state != NULL) {
        pools_close(group->worker_state);
    }
}

bool set_start(struct upstream_set *set)
{
    set_run(set);
    cells_worker_start(set);
    servers_worker_start(set);
    vec_each(struct upstream_group *, group, &set->groups) {
        group_start(*group, NULL);
        if (!watch_start(*group)) {
            log_emerg(&set->log, 0, "no memory to watch the names of upstream \"%.*s\"",
                      STR_ARG((*group)->name));
            return false;
        }
    }
    return health_worker_start(set);
}

void set_quit(struct upstream_set *set)
{
    set->is_quitting = true;
    health_worker_quit(set);
    vec_each(struct upstream_group *, group, &set->groups) {
        watch_quit(*group);
        close_idle(*group, set);
    }
}

void set_end(struct upstream_set *set)
{
    vec_each(struct upstream_group *, group, &set->groups) {
        group_end(*group);
    }
    cells_worker_end(set);
    set_stop(set);
}

/* ---- hooks ---- */

bool upstream_worker_start(struct generation *generation,
                           const struct upstream_subsystem *subsystem)
{
    struct upstream_set *set = upstream_set_of(&generation->conf, subsystem);

    /* There may be no such block. */
    return set->memory == NULL || set->is_running || set_start(set);
}

void upstream_worker_quit(struct generation *generation, const struct upstream_subsystem *subsystem)
{
    struct upstream_set *set = upstream_set_of(&generation->conf, subsystem);

    if (set->is_running) {
        set_quit(set);
        run_time_each(close_idle, set);
    }
}

void upstream_worker_end(struct generation *generation, const struct upstream_subsystem *subsystem)
{
    struct upstream_set *set = upstream_set_of(&generation->conf, subsystem);

    if (set->is_running) {
        servers_files_end(set);
        run_time_end(set);
        set_end(set);
    }
}
