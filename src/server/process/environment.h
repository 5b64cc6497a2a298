/* The environment of workers and of a new binary. */
#ifndef SERVER_PROCESS_ENVIRONMENT_H
#define SERVER_PROCESS_ENVIRONMENT_H

#include "base/arena.h"
#include "base/str.h"

/*
 * The variables that `env` names (struct str, "NAME" or "NAME=VALUE") with their values from the
 * environment at start, and TZ. `extra` adds strings, NULL-ended or NULL. Gives a NULL-ended array
 * for environ or execve.
 */
char **environment_make(struct arena *arena, const struct vec *names, char *const *at_start,
                        char *const *extra);

#endif
