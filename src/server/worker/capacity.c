/* How many requests a worker processes at one time: bounded by worker_requests, or by memory. */
#include "server/worker/capacity.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

/* Approximate memory of a request that waits: its stack, its arena, a buffer. */
#define REQUEST_BYTES (32 * 1024)
/* The share of memory that all requests of all workers may use. */
#define MEMORY_PART 8
#define REQUESTS_MOST 65536 /* of one worker, where memory would allow more */
/* Fibers for other work than requests: health checks, the resolver, the cache manager. */
#define FIBERS_OF_SERVICES 1024

struct capacity capacity = {.requests = UINT32_MAX};

/* The limit of the control group (version 2) that a container has as its root; UINT64_MAX =
 * none. */
static uint64_t memory_of_group(void)
{
    char text[32];
    int fd = open("/sys/fs/cgroup/memory.max", O_RDONLY | O_CLOEXEC);

    if (fd == -1) {
        return UINT64_MAX;
    }
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0 || text[0] < '0' || text[0] > '9') {
        return UINT64_MAX; /* "max" */
    }
    text[n] = '\0';
    return strtoull(text, NULL, 10);
}

static uint64_t memory(void)
{
    uint64_t of_machine = (uint64_t) sysconf(_SC_PHYS_PAGES) * (uint64_t) sysconf(_SC_PAGESIZE);
    uint64_t of_group = memory_of_group();

    return of_group < of_machine ? of_group : of_machine;
}

/* As many as memory allows, but at least two for each connection, so that the first request of a
   connection is never refused. */
static uint32_t requests_for(const struct generation *generation)
{
    uint64_t most = memory() / MEMORY_PART / REQUEST_BYTES / generation->slots;
    uint64_t least = (uint64_t) generation->events->worker_connections * 2;

    most = most < REQUESTS_MOST ? most : REQUESTS_MOST;
    return (uint32_t) (most > least ? most : least < UINT32_MAX / 4 ? least : UINT32_MAX / 4);
}

static void set_requests(const struct generation *generation, uint32_t most)
{
    uint32_t connections = (uint32_t) generation->events->worker_connections;

    capacity.requests = most;
    capacity.reserve = connections < most / 2 ? connections : most / 2;
}

uint32_t capacity_init(const struct generation *generation)
{
    const struct events_settings *events = generation->events;

    set_requests(generation, events->worker_requests != 0 ? (uint32_t) events->worker_requests
                                                          : requests_for(generation));
    return capacity.requests * 2 + FIBERS_OF_SERVICES;
}

void capacity_fit(const struct generation *generation, size_t fibers)
{
    size_t services = fibers / 2 < FIBERS_OF_SERVICES ? fibers / 2 : FIBERS_OF_SERVICES;
    size_t most = (fibers - services) / 2;

    if (most < capacity.requests) {
        set_requests(generation, most != 0 ? (uint32_t) most : 1);
        log_warn(log_main, 0,
                 "address space for the stacks of %zu fibers only: %u requests at one time", fibers,
                 capacity.requests);
    }
}
