/* The master: what its files share. Private to this package. */
#ifndef SERVER_MASTER_MASTER_H
#define SERVER_MASTER_MASTER_H

#include <stdbool.h>
#include <stdint.h>

#include "server/configuration/change.h"
#include "server/generation.h"
#include "server/master/process.h"

/* The state of the master. */
struct master {
    struct generation *generation; /* the running one */
    struct str pid_path;           /* heap, NUL-terminated: the pid file that has our number now */
    bool has_stopped_workers; /* WINCH: no workers until HUP, or until the new binary has ended */
    bool is_quitting;         /* QUIT: ends when all workers have ended */
    bool is_terminating;      /* TERM: the same, at once */
    bool is_switching;        /* new workers are starting; the old ones serve until they accept */
    uint64_t switch_by_ms;    /* monotonic time at which the switch happens in any case */
    enum change next_change;  /* requested while switching; one change at a time, the newest request
                                 counts */
    uint64_t drains_until_ms; /* QUIT came, and takes effect at this time; 0 = it did not come */
    uint64_t escalate_at_ms;  /* when TERM is sent again, or KILL; while is_terminating */
    unsigned escalate_delay_ms;
    uint64_t *respawn_at_ms; /* by slot, of all roles: when a worker that died young is started
                                again; 0 = not waiting */
    uint32_t *gone; /* numbers of listeners of the last generation that have no successor */
    unsigned gone_count;
};
extern struct master master;

/* master_reload.c: the change from one generation to the next. */
void master_start_workers(void);
/* How many slots there may be, including those of the roles that do not serve. */
unsigned master_slots(void);
/* Starts the worker of the slot, unless it has one. */
void master_start_slot(unsigned slot);
/* Allocates respawn_at_ms, cleared. */
void master_forget_respawns(void);
/* Reload, rollback or return. Waits for a change that is in progress. */
void master_change(enum change change);
/* All new workers accept, or the time is up: asks the old ones to quit. */
void master_switch(void);
/* Are there new workers that are neither ready nor dead? */
bool master_is_waiting_for_workers(void);

/* upgrade.c: USR2. */
void master_upgrade(void);
/* The new binary has ended: renames the pid file back. */
void master_upgrade_over(void);

/* Sets the path of the current pid file. */
void master_set_pid_path(struct str path);

#endif
