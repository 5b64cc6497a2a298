/* The environment of workers and of a new binary. */
#ifndef SERVER_PROCESS_ENVIRONMENT_H
#define SERVER_PROCESS_ENVIRONMENT_H

#include "base/arena.h"
#include "base/str.h"

/*
 * What `env` names (struct str, "NAME" or "NAME=VALUE"), from the environment at start, and TZ.
 * More strings may be added by `extra`, NULL-ended or NULL. A NULL-ended array for environ or
 * execve.
 */
char **environment_make(struct arena *arena, const struct vec *names, char *const *at_start,
                        char *const *extra);

#endif
