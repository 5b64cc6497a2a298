/* From the running configuration to another one: reload, rollback, and confirmation. Private to
 * src/server. */
#ifndef SERVER_CONFIGURATION_CHANGE_H
#define SERVER_CONFIGURATION_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/generation.h"

enum change {
    CHANGE_NONE,
    CHANGE_RELOAD,   /* HUP: to the files on the disk */
    CHANGE_ROLLBACK, /* URG: to the configuration that ran before, from config_history */
    CHANGE_RETURN,   /* the last reload was not confirmed in time: to the configuration that was
                        confirmed last */
};

/* Which change to make when `next` is requested while `before` has not begun: a rollback cancels a
 * reload, otherwise the newer one counts. */
enum change change_after(enum change before, enum change next);

/*
 * The generation that replaces `old`, opened. NULL when its configuration cannot be used: the
 * reason is logged, and nothing has changed but counters_mine->reload_failures. May wait (disk,
 * host names).
 */
struct generation *change_make(struct generation *old, enum change change);

/* When the running configuration is replaced unless it is confirmed: monotonic milliseconds; 0 =
 * never. */
uint64_t change_due_ms(void);

/* IO: the running configuration is confirmed. */
void change_confirm(const struct generation *generation);

/* The first generation of the process runs: its record is kept. */
void change_started(struct generation *generation);

/* Its generation is again the only one that runs, since the new binary has ended. */
void change_runs_alone(const struct generation *generation);

#endif
