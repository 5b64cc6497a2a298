/* Logs that go to programs ("pipe:"): the interface for code that starts processes. Private to this
 * package. */
#ifndef SERVER_CONFIGURATION_LOG_PIPE_H
#define SERVER_CONFIGURATION_LOG_PIPE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/generation.h"

/* Opens the pipes of a generation, unless it is a test. Starts no programs. False after a
 * message. */
bool log_pipes_open(struct generation *generation);

/* In a worker: closes the reading ends, so that writing to a pipe fails when its program and the
 * master have ended. */
void log_pipes_write_only(struct generation *generation);

/* Starts the programs that do not run, each at most once a second. Never fails: a program that
 * could not be started is tried again later. */
void log_programs_start(struct generation *generation);

/* When log_programs_start has something to do next, on the clock of clock_now; 0 = all programs
   run. */
uint64_t log_programs_due_ms(const struct generation *generation);

/*
 * For a module that starts programs of its own: is this child one of them? It is called before the
 * log programs are checked, since a single process (`master_process off`) learns of all children
 * that end. May be NULL.
 */
extern bool (*module_program_ended)(pid_t pid, int status);

/* A child has ended. False when it was not a program of the generation. */
bool log_program_ended(struct generation *generation, pid_t pid, int status);

#endif
