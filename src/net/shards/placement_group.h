/* Shared by the members of a group of workers; private to this package. */
#ifndef NET_SHARDS_PLACEMENT_GROUP_H
#define NET_SHARDS_PLACEMENT_GROUP_H

#include <stdatomic.h>

#include "net/shards/placement.h"

/* Written by its worker only, except `offered`. Percentages are of wall-clock time in the last
 * window. */
struct placement_member {
    _Atomic uint64_t turned_ns; /* when its loop last turned, or finished an event of a long turn */
    _Atomic uint64_t judged_ns; /* the end of the last window */
    _Atomic uint64_t joined_ns; /* when it last began to accept */
    _Atomic uint32_t is_asleep; /* it waits for events */
    _Atomic uint32_t busy_percent; /* share of the time in which it worked, or was ready to */
    /* Share of the time in which it was ready to run but had no core. */
    _Atomic uint32_t delay_percent;
    _Atomic uint32_t average_percent; /* of busy_percent, over 100 ms */
    /* Connections that others may give it until its next window ends; a worker that gives some
     * subtracts them. */
    _Atomic uint32_t offered;
    char pad[128 - 3 * sizeof(uint64_t) - 5 * sizeof(uint32_t)];
};

struct placement_group {
    _Atomic uint64_t accepting;     /* a bit for each member */
    _Atomic uint64_t pushed_ns;     /* when the timer was last set */
    _Atomic uint64_t changed_ns;    /* when a member last joined, left or was called */
    _Atomic uint64_t calm_until_ns; /* no member is called before, unless it is urgent */
    /* Length of the next such period, if a member leaves soon again. */
    _Atomic uint64_t backoff_ns;
    char pad[128 - 5 * sizeof(uint64_t)];
    struct placement_member members[PLACEMENT_GROUP_MOST];
};

/* A process's handle of a group. */
struct placement_handle {
    struct placement_group *group; /* in shared memory */
    int call_fd;                   /* eventfd: wakes one member on standby */
    int timer_fd; /* timerfd: expires when no accepting member has turned for a while */
    /* By member: where it receives idle connections; read end and write end. -1 = none. */
    int mailboxes[PLACEMENT_GROUP_MOST][2];
};

/* The group of a slot; NULL: none. */
const struct placement_handle *placement_find(uint32_t generation, unsigned slot);
/* Closes this process's handles of all other groups. */
void placement_keep(const struct placement_handle *kept);

/* Wakes one member on standby. */
void placement_call(const struct placement_handle *handle);

#endif
