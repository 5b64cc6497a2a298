/* `-t --lint`. Private to src/server/program. Implemented in about.c. */
#ifndef SERVER_PROGRAM_LINT_SHOW_H
#define SERVER_PROGRAM_LINT_SHOW_H

#include "server/generation.h"

enum { LINT_FOUND = 2 };

/*
 * Prints the findings about a configuration that was tested. `off` names rules that are switched
 * off: "-RULE,-RULE". Gives the exit status: 0 without findings, LINT_FOUND with some, 1 after a
 * message about `off`.
 */
int lint_show(struct generation *generation, struct str off);

#endif
