/* What the members of a group of workers share; private to this package. */
#ifndef NET_SHARDS_PLACEMENT_GROUP_H
#define NET_SHARDS_PLACEMENT_GROUP_H

#include <stdatomic.h>

#include "net/shards/placement.h"

/* Written by its worker only; percentages are of wall-clock time in the last window. */
struct placement_member {
    _Atomic uint64_t turned_ns; /* when its loop turned last, or an event of a long turn was done */
    _Atomic uint64_t judged_ns; /* the end of the last window */
    _Atomic uint64_t joined_ns; /* when it began to accept last */
    _Atomic uint32_t is_asleep; /* it waits for events */
    _Atomic uint32_t busy_percent; /* it worked, or wanted to */
    _Atomic uint32_t
        delay_percent; /* share of the time in which it wanted to work and had no core */
    _Atomic uint32_t average_percent; /* busy, over 100 ms */
    /* Connections that others may give it until its next window ends; those who give take theirs
     * off. */
    _Atomic uint32_t offered;
    char pad[128 - 3 * sizeof(uint64_t) - 5 * sizeof(uint32_t)];
};

struct placement_group {
    _Atomic uint64_t accepting;     /* a bit for each member */
    _Atomic uint64_t pushed_ns;     /* when the timer was set last */
    _Atomic uint64_t changed_ns;    /* when a member joined or left, or was called */
    _Atomic uint64_t calm_until_ns; /* nobody is called before, unless it is urgent */
    _Atomic uint64_t backoff_ns;    /* how long it is calm after the next one that left soon */
    char pad[128 - 5 * sizeof(uint64_t)];
    struct placement_member members[PLACEMENT_GROUP_MOST];
};

/* A group as a process has it. */
struct placement_handle {
    struct placement_group *group; /* in shared memory */
    int call_fd;                   /* eventfd: wakes one member on standby */
    int timer_fd; /* timerfd: expires when no accepting member has turned for a while */
    /* By member: where it gets idle connections of others; read end and write end. -1 = none. */
    int mailboxes[PLACEMENT_GROUP_MOST][2];
};

/* The group of a slot; NULL = there is none. */
const struct placement_handle *placement_find(uint32_t generation, unsigned slot);
/* Closes this process's handles of all groups but one. */
void placement_keep(const struct placement_handle *kept);

/* Wakes one member that stands by. */
void placement_call(const struct placement_handle *handle);

#endif
