/* What a worker gives up and takes on before it serves: user, limits, priority, CPU, directory. */
#ifndef SERVER_WORKER_PRIVILEGES_H
#define SERVER_WORKER_PRIVILEGES_H

#include <stdbool.h>

#include "server/generation.h"

/* False after a message: the worker must not go on. */
bool privileges_apply(const struct generation *generation, unsigned slot);
/* The user of workers, and nothing else. False after a message. */
bool privileges_drop(const struct generation *generation);

#endif
