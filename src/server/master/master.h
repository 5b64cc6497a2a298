/* The master: what its files share. Private to this package. */
#ifndef SERVER_MASTER_MASTER_H
#define SERVER_MASTER_MASTER_H

#include <stdbool.h>
#include <stdint.h>

#include "server/configuration/change.h"
#include "server/generation.h"
#include "server/master/process.h"

/* What the master is up to. */
struct master {
    struct generation *generation; /* in force */
    struct str pid_path;           /* heap, NUL-terminated: where our number is written now */
    bool has_stopped_workers; /* WINCH: no workers until HUP, or until the new binary has ended */
    bool is_quitting;         /* QUIT: ends when all workers have ended */
    bool is_terminating;      /* TERM: the same, in a hurry */
    bool is_switching;        /* new workers are starting; the old ones serve until they accept */
    uint64_t switch_by_ms;    /* monotonic time at which this ends in any case */
    enum change next_change; /* came while switching: one change after another, the newest counts */
    uint64_t drains_until_ms; /* QUIT came, and is obeyed then; 0 = it did not */
    uint64_t escalate_at_ms;  /* TERM again, or KILL; while is_terminating */
    unsigned escalate_delay_ms;
    uint64_t *respawn_at_ms; /* by slot, of all roles: a worker that died young waits until then; 0
                                = nothing */
    uint32_t *gone; /* numbers of listeners of the last generation that have no successor */
    unsigned gone_count;
};
extern struct master master;

/* master_reload.c: the change from one generation to the next. */
void master_start_workers(void);
/* How many there may be, with those of the roles that do not serve. */
unsigned master_slots(void);
/* Starts the worker of the slot, where it has none. */
void master_start_slot(unsigned slot);
/* Memory for respawn_at_ms. */
void master_forget_respawns(void);
/* Reload, rollback or return; waits for the change under way. */
void master_change(enum change change);
/* All new workers accept, or time is up: the old ones are asked to quit. */
void master_switch(void);
/* New workers that are neither ready nor dead. */
bool master_is_waiting_for_workers(void);

/* upgrade.c: USR2. */
void master_upgrade(void);
/* The new binary has ended: the pid file gets its name back. */
void master_upgrade_over(void);

/* Path of the pid file now. */
void master_set_pid_path(struct str path);

#endif
