/* The worker: what runs between its fork and its exit. Private to this package. */
#ifndef SERVER_WORKER_WORKER_H
#define SERVER_WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "server/generation.h"

/* What the master gives to a worker. */
struct worker_start {
    struct generation *generation;
    unsigned slot;
    uint32_t cell; /* counters and pulse */
    int channel;   /* our end; -1 = none (`master_process off`) */
};

/* Serves until it is asked to end; gives the exit status. */
int worker_run(const struct worker_start *start);

/* ---- its steps, shared with `master_process off` */

/* Starts the loop, connections, fibers and modules. False after a message. */
bool worker_begin(const struct worker_start *start);
bool worker_modules_start(struct generation *generation);
/* Accepts on the sockets of this slot. */
bool worker_accept(struct generation *generation);
/* Call the hooks of all modules. */
void worker_modules_quit(struct generation *generation);
void worker_modules_end(struct generation *generation);
/* Stops accepting and closes what is idle; the loop continues until worker_is_done. */
void worker_quit(void);
/* Nothing is open any more, or the time is up. */
bool worker_is_done(void);
/* Frees everything: the last step before exit. */
void worker_destroy(struct generation *generation);

#endif
