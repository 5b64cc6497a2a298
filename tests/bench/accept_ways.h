/* accept_ways: in which way new connections reach workers; what the parts of the measuring program
 * share. */

#ifndef BENCH_ACCEPT_WAYS_H
#define BENCH_ACCEPT_WAYS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { WORKERS_MAX = 64, ADDRESSES_MAX = 64 };

enum way {
    WAY_HASH,   /* a socket for each worker, the kernel's hash chooses */
    WAY_SHARED, /* one socket for all, EPOLLEXCLUSIVE */
    WAY_MUTEX,  /* one socket, watched by one worker at a time */
    WAY_LEND,   /* hash, and each worker watches those of its next siblings too */
    WAY_CBPF,   /* hash, a watcher renews a classic BPF program that leaves out who is busy */
    WAY_EBPF    /* hash, an eBPF program reads since when each worker is awake */
};

/* What was asked for on the command line. */
struct plan {
    enum way way;
    unsigned workers;
    unsigned addresses;  /* from 127.0.1.1 on */
    unsigned lend_to;    /* siblings whose sockets a worker watches */
    unsigned port;       /* of all addresses; 0: a free one of the first */
    double seconds;      /* how long the clients run */
    unsigned clients;    /* light short connections at a time */
    double heavy_rate;   /* heavy requests a second */
    unsigned heavy_us;   /* CPU time of a heavy request */
    unsigned light_us;   /* CPU time of a light one */
    unsigned bound_us;   /* cbpf, ebpf: awake for longer is busy */
    unsigned stopped_ms; /* how long one worker is stopped by a signal */
    unsigned parked;     /* connections made while all workers are awake and none accepts */
    bool registers_only; /* no load: what it costs to start and end */
};

/* Since when a worker is awake, in ns of CLOCK_MONOTONIC; 0: it sleeps in epoll_wait. A cache line
 * each. */
struct pulse {
    _Atomic uint64_t awake_since;
    char rest[56];
};

/* What a worker counts; written by it alone, read when it has ended. */
struct tally {
    uint64_t own, siblings;    /* connections taken from its own socket, from one of another */
    uint64_t wakeups;          /* returns of epoll_wait with events */
    uint64_t empty;            /* those after which nothing was accepted or served */
    uint64_t misses;           /* events of a listening socket at which nothing waited any more */
    uint64_t cpu_ns, switches; /* since it was ready */
    uint64_t register_ns;      /* wall time of all its EPOLL_CTL_ADD */
    uint64_t register_cpu_ns;
    char rest[56];
};

/* What the client process found. */
struct outcome {
    uint64_t answered, failed, heavy;
    uint64_t cpu_ns;
    double seconds;
    double p50_us, p99_us, longest_us;
    double stopped_longest_us; /* of connections that were opened while a worker was stopped */
    uint64_t stopped_late;     /* how many of them took more than 30 ms */
    double park_ns;            /* CPU time of a connect, with plan.parked */
};

/* Memory that all processes see. */
struct shared {
    _Atomic int lock_holder;   /* mutex: the worker that watches, or -1 */
    _Atomic unsigned steps;    /* of workers, at meeting points */
    _Atomic bool may_register; /* the first meeting point is behind all */
    _Atomic bool is_over;
    _Atomic uint64_t stopped_at, continued_at; /* ns; 0: not yet */
    struct outcome outcome;
    struct tally tallies[WORKERS_MAX];
};

extern struct plan plan;
extern struct shared *shared;
/* One for each worker; in memory of the eBPF map where there is one. */
extern struct pulse *pulses;

/* Nanoseconds of a clock. */
static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* The client process: makes the load that the plan asks for and leaves what it found in
 * shared->outcome. */
void client_run(void);

/* The worker process `self`, with the listening sockets of all, by worker and address; never
 * returns. */
_Noreturn void worker_run(unsigned self, int (*listeners)[ADDRESSES_MAX]);

#endif
