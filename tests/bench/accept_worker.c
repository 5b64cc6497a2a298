/* accept_worker: a worker of accept_ways: it watches listening sockets in the way that is measured,
 * and answers. */

#define _GNU_SOURCE
#include "accept_ways.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS = 64,
    OWN_BATCH = 4,        /* connections that one event of the own socket gives */
    MUTEX_DELAY_MS = 500, /* who has not got the lock asks again after so long */
    LISTENER = 1 << 30    /* in an event's data: not a connection */
};

static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

static unsigned self;
static int epoll;
static int (*listeners)[ADDRESSES_MAX];
static struct tally *tally;

static uint64_t switches(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t) usage.ru_nvcsw;
}

static void control(int operation, unsigned worker, unsigned address)
{
    struct epoll_event event = {.events = EPOLLIN |
                                          (plan.way == WAY_MUTEX ? 0 : (uint32_t) EPOLLEXCLUSIVE),
                                .data.u32 = LISTENER | worker * ADDRESSES_MAX | address};

    if (epoll_ctl(epoll, operation, listeners[worker][address], &event) == -1) {
        perror("epoll_ctl");
        _exit(1);
    }
}

static void watch_all_of(unsigned worker)
{
    uint64_t started = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

    for (unsigned a = 0; a < plan.addresses; a++)
        control(EPOLL_CTL_ADD, worker, a);
    tally->register_ns += clock_ns(CLOCK_MONOTONIC) - started;
    tally->register_cpu_ns += clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
}

/* Until all workers have come here for the `step`th time. */
static void meet(unsigned step)
{
    shared->steps++;
    while (shared->steps < step * plan.workers)
        usleep(100);
}

/* The own socket stands first in the wait queue of each, then the siblings by their distance. */
static void watch_listeners(void)
{
    unsigned step = 1;

    meet(step++);
    while (!shared->may_register)
        usleep(100);
    if (plan.way != WAY_MUTEX)
        watch_all_of(plan.way == WAY_SHARED ? 0 : self);
    meet(step++);
    for (unsigned k = 1; plan.way == WAY_LEND && k <= plan.lend_to; k++) {
        watch_all_of((self + k) % plan.workers);
        meet(step++);
    }
}

static void work(uint64_t ns)
{
    uint64_t started = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

    while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - started < ns)
        continue;
}

/* False: the request has not come yet. */
static bool serve(int fd)
{
    char request[64];
    ssize_t n = read(fd, request, sizeof(request));

    if (n == -1 && errno == EAGAIN)
        return false;
    if (n > 0) {
        work((request[0] == 'H' ? plan.heavy_us : plan.light_us) * 1000ull);
        if (write(fd, answer, sizeof(answer) - 1) == -1 && errno != ECONNRESET && errno != EPIPE)
            perror("write");
    }
    close(fd);
    return true;
}

static void serve_new(int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t) fd};

    if (!serve(fd) && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == -1)
        close(fd);
}

/* A connection that waits, or -1. */
static int take(uint32_t data)
{
    unsigned worker = (data & ~(unsigned) LISTENER) / ADDRESSES_MAX;
    int fd = accept4(listeners[worker][data % ADDRESSES_MAX], NULL, NULL, SOCK_NONBLOCK);

    if (fd == -1)
        return -1;
    if (worker == self || plan.way == WAY_SHARED || plan.way == WAY_MUTEX)
        tally->own++;
    else
        tally->siblings++;
    return fd;
}

/* How many connections an event of a listening socket gave. */
static unsigned accept_some(uint32_t data)
{
    bool is_own = plan.way == WAY_SHARED || (data & ~(unsigned) LISTENER) / ADDRESSES_MAX == self;
    unsigned taken = 0;

    for (; taken < (is_own ? OWN_BATCH : 1u); taken++) {
        int fd = take(data);
        if (fd == -1)
            break;
        serve_new(fd);
    }
    tally->misses += taken == 0;
    return taken;
}

static bool is_watching; /* mutex: the listening sockets are in our epoll */

/* Tries to get the lock; how long epoll_wait may take. */
static int lock_or_leave(void)
{
    int nobody = -1;
    bool has = atomic_compare_exchange_strong(&shared->lock_holder, &nobody, (int) self);

    for (unsigned a = 0; has != is_watching && a < plan.addresses; a++)
        control(has ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, 0, a);
    is_watching = has;
    return has ? -1 : MUTEX_DELAY_MS;
}

/* One connection an event, and the lock is free again before any is served. */
static unsigned accept_and_unlock(const struct epoll_event *events, int n)
{
    int fresh[EVENTS];
    unsigned count = 0;

    for (int i = 0; i < n; i++) {
        if ((events[i].data.u32 & LISTENER) == 0)
            continue;
        fresh[count] = take(events[i].data.u32);
        if (fresh[count] == -1)
            tally->misses++;
        else
            count++;
    }
    if (shared->lock_holder == (int) self)
        shared->lock_holder = -1;
    for (unsigned i = 0; i < count; i++)
        serve_new(fresh[i]);
    return count;
}

static void turn(void)
{
    struct epoll_event events[EVENTS];
    int timeout = plan.way == WAY_MUTEX ? lock_or_leave() : 1000, n;
    unsigned done = 0;

    pulses[self].awake_since = 0;
    n = epoll_wait(epoll, events, EVENTS, timeout);
    pulses[self].awake_since = clock_ns(CLOCK_MONOTONIC);
    if (plan.way == WAY_MUTEX)
        done += accept_and_unlock(events, n);
    for (int i = 0; i < n; i++) {
        if ((events[i].data.u32 & LISTENER) == 0)
            done += serve((int) events[i].data.u32);
        else if (plan.way != WAY_MUTEX)
            done += accept_some(events[i].data.u32);
    }
    tally->wakeups += n > 0;
    tally->empty += n > 0 && done == 0;
}

static void end(int signal)
{
    (void) signal; /* epoll_wait ends; shared->is_over says the rest */
}

_Noreturn void worker_run(unsigned number, int (*sockets)[ADDRESSES_MAX])
{
    struct sigaction action = {.sa_handler = end};
    uint64_t cpu, switched;

    self = number;
    listeners = sockets;
    tally = &shared->tallies[self];
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    epoll = epoll_create1(0);
    watch_listeners();
    cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    switched = switches();
    while (!shared->is_over) {
        if (plan.parked > 0 || plan.registers_only)
            usleep(50000);
        else
            turn();
    }
    tally->cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    tally->switches = switches() - switched;
    _exit(0);
}
