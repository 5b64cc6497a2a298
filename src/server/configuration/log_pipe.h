/* Logs that go to programs ("pipe:"), as they look to code that has processes. Private to this
 * package. */
#ifndef SERVER_CONFIGURATION_LOG_PIPE_H
#define SERVER_CONFIGURATION_LOG_PIPE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/generation.h"

/* Opens the pipes of a generation, unless it is a test; no program is started. False after a
 * message. */
bool log_pipes_open(struct generation *generation);

/* In a worker: it writes only, so that a pipe whose programs and master are gone is known as
 * broken. */
void log_pipes_write_only(struct generation *generation);

/* Starts the programs that do not run, but none twice within a second. Never fails: what could not
 * be started is tried again. */
void log_programs_start(struct generation *generation);

/* When log_programs_start has something to do next, on the clock of clock_now; 0 = not known. */
uint64_t log_programs_due_ms(const struct generation *generation);

/*
 * A module that starts programs of its own: is this one of them? It is asked first, since a single
 * process (`master_process off`) learns of all children that end. NULL: there is none.
 */
extern bool (*module_program_ended)(pid_t pid, int status);

/* A child has ended. False when it was none of the generation's programs. */
bool log_program_ended(struct generation *generation, pid_t pid, int status);

#endif
