/*
 * The servers of a group as they change while the service runs: what an API reads and writes. All
 * workers of a generation have the same; a request sees a change as soon as it is made. Only groups
 * with `zone` can change. Implemented in cells/cells.c, peers/servers.c and peers/servers_file.c.
 */
#ifndef UPSTREAM_SERVERS_H
#define UPSTREAM_SERVERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "server/generation.h"

struct upstream_group;
struct upstream_server;

#define SERVERS_MOST 10000       /* that one group may have */
#define SERVER_TEXT_MOST 255     /* bytes of an address, a service, a route, an id */
#define SERVER_WEIGHT_MOST 65535 /* so that sums of weights stay small */

/* One server of a group. */
struct server_entry {
    uint32_t id;        /* given when it came, and never again to another */
    struct str address; /* as written; a name is resolved, and its changes are followed */
    struct str service; /* of SRV records; empty = none */
    struct str route;   /* for `sticky route`; empty = none */
    struct str label;   /* Tengine's id=; empty = none */
    uint32_t weight;
    uint32_t max_conns;
    uint32_t max_fails;
    uint64_t fail_timeout_ms;
    uint64_t slow_start_ms;
    bool is_backup;
    bool is_down;
    bool is_draining;
    bool wants_resolve; /* `resolve` */
};

/* Can the servers of this group change? */
bool servers_may_change(const struct upstream_group *group);

/* What the configuration, or who changed it since, says of the group: struct server_entry in the
 * arena. */
struct servers_list {
    uint64_t version; /* raised with each change */
    uint32_t next_id; /* of the next server that comes */
    struct vec entries;
};
void servers_read(struct upstream_group *group, struct arena *arena, struct servers_list *out);

/* Bytes that its servers take of its zone. */
size_t servers_size(struct upstream_group *group);

/* Can this server be one of the group? NULL: yes; else what is wrong with its address, as text
 * without its end. */
const char *servers_check(const struct upstream_group *group, const struct server_entry *entry,
                          struct arena *arena);

/* Is its address a name, which has to be resolved? */
bool server_address_is_name(struct str address);

enum servers_result {
    SERVERS_DONE,
    SERVERS_MOVED,       /* somebody else has changed it meanwhile: read it again */
    SERVERS_FULL,        /* there is no room in shared memory, or there are too many */
    SERVERS_HANDED_OVER, /* the next generation has read them, or reads them now */
};

/* The group has these servers from now on, in all workers. list: as it was read, with changes. Does
 * not wait. */
enum servers_result servers_write(struct upstream_group *group, const struct servers_list *list);

/*
 * Waits until the state file of the group, if it has one, holds what was written before. MAY WAIT,
 * for the disk. False: it does not, which was logged; or the fiber was cancelled.
 */
bool servers_save(struct upstream_group *group, const struct log *log);

/* Takes over what has changed in other workers. Cheap when nothing has. */
void servers_sync(struct upstream_group *group);

/* Addresses that are no longer of the group and still have requests. */
unsigned servers_zombies(const struct upstream_group *group);

/* The group's queue, of all workers. Each counts its requests by itself, so that those of one that
 * died are not counted for ever. */
struct servers_queue {
    _Atomic uint64_t overflows; /* requests that found it full so far */
    uint32_t slots;
    _Atomic uint32_t waiting[]; /* by slot */
};
/* NULL: the servers of the group cannot change. */
struct servers_queue *servers_queue_of(const struct upstream_group *group);
/* Requests that wait in it. */
uint32_t servers_queue_waiting(const struct servers_queue *queue);
/* This worker's own. */
static inline _Atomic uint32_t *servers_queue_mine(struct servers_queue *queue)
{
    return &queue->waiting[worker_slot < queue->slots ? worker_slot : 0];
}

#endif
