/* What a worker changes before it serves: user, limits, priority, CPU, directory. */
#ifndef SERVER_WORKER_PRIVILEGES_H
#define SERVER_WORKER_PRIVILEGES_H

#include <stdbool.h>

#include "server/generation.h"

/* False after a message: the worker must not continue. */
bool privileges_apply(const struct generation *generation, unsigned slot);
/* Changes only the user, to that of workers. False after a message. */
bool privileges_drop(const struct generation *generation);

#endif
