/* A child with the rights of workers that does one job for the master: it parses data from
 * untrusted sources, and leaves the result in shared memory. Implemented in worker/isolated.c. */
#ifndef SERVER_ISOLATED_H
#define SERVER_ISOLATED_H

#include <stdbool.h>

#include "base/str.h"
#include "server/generation.h"

struct isolated_work {
    struct str title;           /* title of the process */
    bool (*prepare)(void *arg); /* called with the rights of the caller */
    bool (*run)(void *arg);     /* called with the rights of workers */
    void *arg;
    unsigned limit_ms; /* the child is killed after this time */
};

/*
 * Forks, runs both functions in the child, and waits for its end. To be called while there are no
 * threads. False: one of the functions gave false, or the child crashed, took too long or could not
 * be started; all of these but the first were logged.
 */
bool isolated_run(const struct generation *generation, const struct isolated_work *work);

#endif
