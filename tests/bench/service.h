/* What the backends of the benchmark have in common: one process that listens at an address, waits
 * for its connections with epoll, and tells what it counted. */
#ifndef BENCH_SERVICE_H
#define BENCH_SERVICE_H

#include <stdint.h>

/* What a backend does; none of it may wait. */
struct service {
    /* A connection came, non-blocking: from now on `fd` is the backend's, which adds it to
     * service_epoll with a data.ptr of its own. */
    void (*accepted)(int fd);
    /* epoll has events for what has this data.ptr. */
    void (*ready)(void *connection, uint32_t events);
    /* Before each wait: how long it may take at most, in milliseconds; -1 = any time. NULL: that.
     */
    int (*due)(void);
    /* Prints what was counted: one line of JSON. */
    void (*tell)(void);
};

/* Where connections are waited for. */
extern int service_epoll;

/* Listens at "127.0.0.1:PORT" or "unix:PATH", says "ready", and serves until SIGTERM; tells its
 * counts then, and at SIGUSR1. Exits with a message when it cannot listen. */
void service_run(const struct service *service, const char *address);

#endif
