/* Messages to systemd (sd_notify): readiness, reload, end. Does nothing without NOTIFY_SOCKET. */
#ifndef SERVER_PROCESS_NOTIFY_H
#define SERVER_PROCESS_NOTIFY_H

#include <sys/types.h>

/* All workers accept. Reports the master's process id as well. */
void notify_ready(void);
void notify_reloading(void);
/* The service ends. Not called by a master that leaves the service to another one. */
void notify_stopping(void);
/* Sets the main process of the service: the id of a successor, or our own. */
void notify_main(pid_t pid);

#endif
