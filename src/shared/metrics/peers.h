/* The groups that are shown, and their peers: those of the configuration, and those that were added
 * at run time. */
#ifndef SHARED_METRICS_PEERS_H
#define SHARED_METRICS_PEERS_H

#include "upstream/peer.h"

/* One peer; if peer is NULL, a group without peers. */
struct shown_peer {
    struct str group;                /* its name */
    const struct upstream_group *of; /* the group itself */
    const struct peer *peer;
    unsigned id; /* index in its group */
};

/* All groups and peers of http or stream, group by group, as struct shown_peer. A group that was
 * changed has both its old and its new peers, since locations that name it without a variable still
 * use the old ones. Names of peers are unique in a group. */
struct vec shown_peers(const struct upstream_subsystem *subsystem, struct arena *arena);

/* Bytes of a zone that are used outside of its allocator: the servers of its groups. */
size_t shown_servers_size(const struct zone *zone);

#endif
