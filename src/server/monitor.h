/* A process that keeps the rights which its parent gives up (privilege separation). Implemented in
 * worker/monitor.c. */
#ifndef SERVER_MONITOR_H
#define SERVER_MONITOR_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/str.h"

struct monitor {
    pid_t pid; /* 0: not started */
    int fd;    /* our end of its socket: a blocking stream */
};

/*
 * Forks a process with this title that runs serve(fd, arg) and ends. It has no other descriptors
 * than standard input, output and error, and no signal but SIGKILL reaches it: serve returns at the
 * end of the input, which comes when the parent ends. To be called in `worker_start`, before there
 * are threads. False with errno.
 */
bool monitor_start(struct monitor *monitor, struct str title, void (*serve)(int fd, void *arg),
                   void *arg);
/* Closes our end. With is_idle (no request in progress), waits until the process has ended. */
void monitor_end(struct monitor *monitor, bool is_idle);

#endif
