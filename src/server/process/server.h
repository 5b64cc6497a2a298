/* What the process was started with, and the steps of its life. Private to this package.
 * Implemented in server.c, server/master/master.c and server/master/single.c. */
#ifndef SERVER_PROCESS_SERVER_H
#define SERVER_PROCESS_SERVER_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "server/generation.h"
#include "server/process/command_line.h"

/* What stays constant from start to end. One per process; forked children have a copy. */
struct server {
    struct command_line options;
    struct arena arena;   /* has the strings below */
    struct str prefix;    /* run prefix, with trailing slash (or empty: the current directory) */
    struct str file_name; /* full name of the configuration file */
    struct str first_log_path; /* -e, or the default; "stderr" means standard error */
    struct str program; /* what USR2 executes: argv[0], made absolute when it was found by PATH */
    char **argv;        /* copies, since the title is written over the originals */
    int argc;
    char **environment; /* as it was at start; copies, NULL-ended */
    bool is_upgrade;    /* NGINX was set: an older binary started us and is still running */
    pid_t parent;       /* our parent at start; the older master while is_upgrade */
    cpu_set_t cpus;     /* CPUs that we may run on */
    unsigned cpu_count; /* number of CPUs in `cpus` */
};
extern struct server server;

/* A variable of the environment at start, or NULL. */
const char *server_environment(const char *name);

/* Standard error, for when all other logs are closed. */
struct log *server_last_log(void);
/* The last step before exit. */
void server_free(void);

/* Fills in `server` from a command line that is valid. False when it is not. */
bool server_prepare(int argc, char **argv, char **environment);

/* Opens the first log (-e or the default) and makes it the main log. If that fails, an alert is
   logged and standard error is used instead. */
void server_first_log(void);
/* The file of the first log, until server_first_log_close; NULL after that. */
const struct log_file *server_first_log_file(void);
/* The first log is not used any more: the main log is standard error or a generation's. */
void server_first_log_close(void);

/* Becomes a daemon: double fork, new session, standard streams to /dev/null. The parent ends when
   the child calls daemon_is_ready, so that the program that started it finds the pid file. */
bool daemon_start(const struct log *log);
void daemon_is_ready(void);
/* Redirects standard error to the error log, if that is a file. */
void standard_error_to_log(const struct log *log);
/* The log was reopened or replaced: redirects standard error again, if it was redirected before. */
void standard_error_follow(const struct log *log);

/* Runs the master with its workers; gives the exit status. */
int master_run(struct generation *generation);
/* `master_process off`: runs everything in this one process; gives the exit status. */
int single_run(struct generation *generation);

#endif
