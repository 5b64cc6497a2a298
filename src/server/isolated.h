/* A child with the rights of workers that does one thing for the master: parses what others may
 * have written, and leaves the result in shared memory. Implemented in worker/isolated.c. */
#ifndef SERVER_ISOLATED_H
#define SERVER_ISOLATED_H

#include <stdbool.h>

#include "base/str.h"
#include "server/generation.h"

struct isolated_work {
    struct str title;           /* of the process */
    bool (*prepare)(void *arg); /* with the rights of the caller */
    bool (*run)(void *arg);     /* with those of workers */
    void *arg;
    unsigned limit_ms; /* it is killed then */
};

/*
 * Forks, runs both functions in the child, and waits for its end. To be called while there are no
 * threads. False: one of the two said so, or the child crashed, was late or could not be started,
 * which was logged.
 */
bool isolated_run(const struct generation *generation, const struct isolated_work *work);

#endif
