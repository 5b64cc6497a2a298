/* The groups that are shown, and their peers: those of the configuration, and those that came while
 * the service runs. */
#ifndef SHARED_METRICS_PEERS_H
#define SHARED_METRICS_PEERS_H

#include "upstream/peer.h"

/* One peer; or, where peer is NULL, a group that has none. */
struct shown_peer {
    struct str group;                /* its name */
    const struct upstream_group *of; /* the group itself */
    const struct peer *peer;
    unsigned id; /* place in its group */
};

/* All of http or stream, group by group, as struct shown_peer. A group that was changed has its
 * former peers and those that came: places that name it without a variable have the former ones
 * still. No two peers of a group have one name. */
struct vec shown_peers(const struct upstream_subsystem *subsystem, struct arena *arena);

/* Bytes of a zone that are not of its allocator: servers of the groups that have it. */
size_t shown_servers_size(const struct zone *zone);

#endif
