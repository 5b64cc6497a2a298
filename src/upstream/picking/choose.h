/* What balancers and stickiness share: tables of weights, the least of a load, peers by identity.
 */
#ifndef UPSTREAM_PICKING_CHOOSE_H
#define UPSTREAM_PICKING_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "upstream/peer.h"

/* How often a balancer that hashes or draws meets a peer that cannot serve, before round robin
 * takes over; peers that had their try are not counted. As nginx has it. */
#define CHOOSE_MISSES_MAX 20
/* The same limit for all misses of a request. */
#define CHOOSE_DRAWS_MAX 1000

/* A line on which each peer of a set is as long as its weight. Down peers keep their share, so that
 * the others' keys stay where they are. */
struct weight_table {
    unsigned count;  /* peers */
    uint64_t total;  /* length of the line; at least 1 when there is a peer */
    uint64_t ends[]; /* by peer: where it ends on the line */
};

/* For balancer->prepare; memory of malloc, freed by weight_table_free. NULL for an empty set. */
struct weight_table *weight_table_new(const struct peer_set *set);
void weight_table_free(struct weight_table *table);
/* The index of the peer whose part of the line of weights has this position, which is below total.
 * O(log n). */
unsigned weight_table_at(const struct weight_table *table, uint64_t position);

/* prepare and forget of balancers whose balancer_data is such a table. */
void weight_table_prepare(struct upstream_group *group, struct peer_set *set);
void weight_table_forget(struct peer_set *set);

/*
 * The peer at a position on the line of the set's table, which `next_position` gives (any number:
 * it goes round), and again for as long as the peer there is `except`, had its try or cannot serve.
 * key is for next_position. NULL: there is no choice, or nobody was met who can serve; round robin
 * finds who is left.
 */
struct peer *choose_on_line(struct upstream_pick *pick, struct peer_set *set,
                            uint64_t (*next_position)(struct upstream_pick *pick, struct str key),
                            struct str key, const struct peer *except);

/* Had this peer its try in this pick? */
static inline bool peer_was_tried(const struct upstream_pick *pick, const struct peer *peer)
{
    return pick->tried != NULL && (pick->tried[peer->number / 64] >> (peer->number % 64) & 1) != 0;
}

/*
 * The peer with the least load for its weight, among those that may serve; several with the same
 * get their turns by weight. NULL: none may serve. set->balancer_data was made by load_prepare.
 */
struct peer *choose_least(struct upstream_pick *pick, struct peer_set *set,
                          uint64_t (*load)(const struct peer *peer, const void *arg),
                          const void *arg);
void load_prepare(struct upstream_group *group, struct peer_set *set);
void load_forget(struct peer_set *set);

/* Is the load of a, shared out by weight, less than that of b? */
bool load_is_less(uint64_t load_a, unsigned weight_a, uint64_t load_b, unsigned weight_b);

/* What cookies call a peer: 32 hex digits, the MD5 of its name. */
struct str peer_digest(struct peer *peer);

/*
 * The peer that a request is bound to: the first that `matches` and may serve, bound requests being
 * let through to draining ones. Backups count only while no primary peer may serve. When none of
 * those that match may serve: the first primary one among them, or NULL, and *can_serve tells.
 */
struct peer *choose_bound(const struct upstream_pick *pick,
                          bool (*matches)(struct peer *peer, const void *arg), const void *arg,
                          bool *can_serve);

#endif
