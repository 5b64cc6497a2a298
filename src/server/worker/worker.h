/* The worker: what runs between its fork and its exit. Private to this package. */
#ifndef SERVER_WORKER_WORKER_H
#define SERVER_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "server/generation.h"

/* What the master gives a worker on its way. */
struct worker_start {
    struct generation *generation;
    unsigned slot;
    uint32_t cell; /* counters and pulse */
    int channel;   /* our end; -1 = none (`master_process off`) */
};

/* Serves until it is asked to end; the exit status. */
int worker_run(const struct worker_start *start);

/* ---- the steps of it, shared with `master_process off` */

/* Loop, connections, fibers and modules. False after a message. */
bool worker_begin(const struct worker_start *start);
bool worker_modules_start(struct generation *generation);
/* Accepts on the sockets of this slot. */
bool worker_accept(struct generation *generation);
/* Hooks of all modules. */
void worker_modules_quit(struct generation *generation);
void worker_modules_end(struct generation *generation);
/* Stops accepting and lets idle things go; the loop continues until worker_is_done. */
void worker_quit(void);
/* Nothing is open any more, or the time is up. */
bool worker_is_done(void);
/* Gives everything back: the last step before exit. */
void worker_destroy(struct generation *generation);

#endif
