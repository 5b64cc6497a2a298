/* Reloads, rollbacks and confirmations, for the master and for `master_process off`. */
#include "server/configuration/change.h"

#include <limits.h>
#include <stdio.h>

#include "base/clock.h"
#include "server/configuration/generation_life.h"
#include "server/configuration/history.h"

/* A reload that waits for its confirmation. */
static struct {
    unsigned return_to;       /* the record that was confirmed last; 0 = no reload waits */
    char directory[PATH_MAX]; /* the directory of that record: a reload may name another one */
    uint64_t due_ms;
} waiting;

/* Is it the generation that was confirmed last? */
static bool is_confirmed_one(const struct generation *generation)
{
    return waiting.return_to != 0 && generation->kept.number == waiting.return_to &&
           str_is(generation->kept.directory, waiting.directory);
}

static void wait_for_confirmation(const struct generation *confirmed)
{
    waiting.return_to = confirmed->kept.number;
    snprintf(waiting.directory, sizeof(waiting.directory), "%.*s",
             STR_ARG(confirmed->kept.directory));
}

enum change change_after(enum change before, enum change next)
{
    if (before == CHANGE_RELOAD && next == CHANGE_ROLLBACK) {
        log_notice(log_main, 0, "the reload that waited is cancelled");
        return CHANGE_NONE;
    }
    return next;
}

uint64_t change_due_ms(void)
{
    return waiting.return_to == 0 ? 0 : waiting.due_ms;
}

void change_confirm(const struct generation *generation)
{
    if (waiting.return_to == 0) {
        log_notice(log_main, 0, "no configuration waits for its confirmation");
        return;
    }
    waiting.return_to = 0;
    log_notice(log_main, 0, "configuration %u is confirmed", generation->kept.number);
    history_state_keep(generation, 0);
}

void change_started(struct generation *generation)
{
    history_keep(generation, NULL, 0);
    history_state_keep(generation, 0);
}

void change_runs_alone(const struct generation *generation)
{
    history_state_keep(generation, waiting.return_to);
}

/* The record that a change leads to; 0 after a message. */
static unsigned find_target(const struct generation *old, enum change change)
{
    unsigned target = change == CHANGE_RETURN ? waiting.return_to : old->kept.before;

    if (target == 0 && old->core->history_count == 0) {
        log_error(log_main, 0, "no configuration was kept, set \"config_history\"");
    } else if (target == 0) {
        log_error(log_main, 0, "no configuration ran before this one");
    }
    return target;
}

static struct generation *read_next(struct generation *old, enum change change)
{
    if (change == CHANGE_RELOAD) {
        return generation_read(old, false, false);
    }
    unsigned target = find_target(old, change);
    struct str directory =
        change == CHANGE_RETURN ? str_of(waiting.directory) : old->kept.directory;

    return target == 0 ? NULL : generation_read_kept(old, directory, target, false, false);
}

/* A reload was done: starts to wait for its confirmation, where one is required. */
static void ask_for_confirmation(const struct generation *next, const struct generation *old)
{
    uint64_t time_ms = next->core->reload_confirm_ms;

    if (time_ms == 0 || is_confirmed_one(next)) {
        waiting.return_to = 0;
        return;
    }
    if (next->kept.number == old->kept.number && next->kept.number != 0) {
        return; /* the same record as before: whether it waits does not change */
    }
    if (waiting.return_to == 0) {
        wait_for_confirmation(old);
    }
    if (waiting.return_to == 0) {
        log_error(log_main, 0,
                  "the configuration before was not kept, \"reload_confirm\" is ignored");
        return;
    }
    waiting.due_ms = clock_now.now_ms + time_ms;
    log_notice(
        log_main, 0,
        "configuration %u returns to %u in %llu ms, unless \"nginx -s confirm\" comes before",
        next->kept.number, waiting.return_to, (unsigned long long) time_ms);
}

static void note(struct generation *next, struct generation *old, enum change change)
{
    clock_update();
    if (change == CHANGE_RELOAD) {
        history_keep(next, old, waiting.return_to);
        ask_for_confirmation(next, old);
    } else {
        waiting.return_to = 0;
        log_notice(
            log_main, 0,
            "configuration %u runs again; the files on the disk are unchanged, and the next reload or start reads them",
            next->kept.number);
    }
    history_state_keep(next, waiting.return_to);
}

struct generation *change_make(struct generation *old, enum change change)
{
    if (change == CHANGE_RETURN) {
        log_warn(log_main, 0, "configuration %u was not confirmed in time, returning to %u",
                 old->kept.number, waiting.return_to);
    }
    struct generation *next = read_next(old, change);

    if (change == CHANGE_RETURN) {
        waiting.return_to = 0; /* one attempt only */
    }
    if (next != NULL) {
        next->core->daemon = old->core->daemon;
        next->core->master_process = old->core->master_process;
        if (!generation_check(next) || !generation_open(next, false)) {
            generation_free(next);
            next = NULL;
        }
    }
    if (next == NULL) {
        counters_mine->reload_failures++;
        if (change != CHANGE_RELOAD) {
            log_error(log_main, 0, "the running configuration is kept");
        }
        return NULL;
    }
    note(next, old, change);
    return next;
}
