/* The signals: which process handles them, their names, and the values of -s. Private to this
   package. */
#ifndef SERVER_PROCESS_SIGNALS_H
#define SERVER_PROCESS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#include "base/str.h"

/* The sets that master and workers take through signalfd. */
void signals_of_master(sigset_t *set);
void signals_of_worker(sigset_t *set);

/* Ignores PIPE and SYS, from the start. */
void signals_ignore(void);
/* Blocks the master's signals until it handles them, so that one that comes right after the pid
   file was written does not end the process. */
void signals_hold(void);
/* For a child before exec: nothing is blocked or ignored. */
void signals_reset(void);

/* The signal for a value of -s; 0 = unknown. */
int signal_of_word(struct str word);

/* Logs the notice `signal 1 (SIGHUP) received from 123, reconfiguring`; tail may be "". */
void signal_log(int signo, int sender_pid, const char *tail);

#endif
