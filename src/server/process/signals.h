/* The signals: which are taken by which process, their names and words. Private to this package. */
#ifndef SERVER_PROCESS_SIGNALS_H
#define SERVER_PROCESS_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#include "base/str.h"

/* The sets that master and workers take through signalfd. */
void signals_of_master(sigset_t *set);
void signals_of_worker(sigset_t *set);

/* PIPE and SYS are ignored from the start. */
void signals_ignore(void);
/* The master's wait until it takes them: one that comes right after the pid file ends nothing. */
void signals_hold(void);
/* For a child before exec: nothing blocked, nothing ignored. */
void signals_reset(void);

/* The signal that a word of -s stands for; 0 = none. */
int signal_of_word(struct str word);

/* The notice `signal 1 (SIGHUP) received from 123, reconfiguring`; tail may be "". */
void signal_log(int signo, int sender_pid, const char *tail);

#endif
