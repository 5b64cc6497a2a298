/* Words to systemd (sd_notify): readiness, reload, end. Nothing without NOTIFY_SOCKET. */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

/* All workers accept; tells the number of the master as well. */
void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);

#endif
