/* Words to systemd (sd_notify): readiness, reload, end. Nothing without NOTIFY_SOCKET. */
#ifndef SERVER_PROCESS_NOTIFY_H
#define SERVER_PROCESS_NOTIFY_H

#include <sys/types.h>

/* All workers accept; tells the number of the master as well. */
void notify_ready(void);
void notify_reloading(void);
/* The service ends. Not for a master that leaves it to another. */
void notify_stopping(void);
/* The main process is this one: a successor's number, or one's own. */
void notify_main(pid_t pid);

#endif
