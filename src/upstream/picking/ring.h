/* Rings of consistent hashing: a key's server stays the same while other servers come and go. */
#ifndef UPSTREAM_PICKING_RING_H
#define UPSTREAM_PICKING_RING_H

#include <stdint.h>

#include "upstream/peer.h"

/* A place on the ring, and whose it is. */
struct ring_point {
    uint32_t hash;  /* its place on the ring */
    uint32_t owner; /* index of ring.owners */
};

/* Peers with the same identity: the addresses of one name. */
struct ring_owner {
    unsigned first; /* index of ring.members */
    unsigned count; /* of members */
};

/*
 * The points of all owners, by rising hash. They are those of ketama as Cache::Memcached::Fast and
 * nginx have them: 160 for each unit of weight, CRC-32 of "HOST\0PORT" and of the point before.
 */
struct ring {
    struct ring_point *points; /* owned */
    size_t count;              /* of points */
    struct ring_owner *owners; /* owned */
    unsigned *members;         /* owned: indexes of the set's peers, grouped by owner */
};

/* What the points of a peer are made of: its bytes stay where they are while the ring is made. */
typedef struct str ring_identity(const struct peer *peer);

/* A ring for the set; NULL for an empty one. */
struct ring *ring_new(const struct peer_set *set, ring_identity *identity);

/*
 * The peer at the first point at or after the hash whose owner has a peer that may serve; after
 * CHOOSE_MISSES_MAX points in vain round robin decides. set->balancer_data is the ring.
 */
struct peer *ring_pick(struct upstream_pick *pick, struct peer_set *set, uint32_t hash);

/* The peer whom the hash belongs to, whether it may serve or not: the first of its addresses. NULL:
 * an empty ring. */
const struct peer *ring_owner_of(const struct peer_set *set, uint32_t hash);

/* The address as written in the configuration: the identity for `hash … consistent`. */
struct str ring_identity_written(const struct peer *peer);

/* For balancer->forget: frees the ring in balancer_data. */
void ring_forget(struct peer_set *set);

#endif
