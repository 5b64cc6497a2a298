/* What balancers and stickiness share: tables of weights, the least of a load, peers by identity.
 */
#include "upstream/picking/choose.h"

#include <stdlib.h>

#include "base/checksum.h"
#include "base/fatal.h"
#include "base/text.h"

/* ---- tables of weights ---- */

struct weight_table *weight_table_new(const struct peer_set *set)
{
    struct weight_table *table;

    if (set->count == 0) {
        return NULL;
    }
    table = calloc(1, sizeof(*table) + set->count * sizeof(table->ends[0]));
    if (table == NULL) {
        fatal_no_memory(set->count * sizeof(table->ends[0]));
    }
    table->count = set->count;
    for (unsigned i = 0; i < set->count; i++) {
        table->total += set->peers[i].weight;
        table->ends[i] = table->total;
    }
    if (table->total == 0) { /* no peer has a weight: all have the same */
        for (unsigned i = 0; i < set->count; i++) {
            table->ends[i] = ++table->total;
        }
    }
    return table;
}

void weight_table_free(struct weight_table *table)
{
    free(table);
}

unsigned weight_table_at(const struct weight_table *table, uint64_t position)
{
    unsigned low = 0, high = table->count - 1;

    while (low < high) {
        unsigned middle = low + (high - low) / 2;

        if (position < table->ends[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

void weight_table_prepare(struct upstream_group *group, struct peer_set *set)
{
    set->balancer_data = weight_table_new(set);
}

void weight_table_forget(struct peer_set *set)
{
    weight_table_free(set->balancer_data);
    set->balancer_data = NULL;
}

struct peer *choose_on_line(struct upstream_pick *pick, struct peer_set *set,
                            uint64_t (*next_position)(struct upstream_pick *pick, struct str key),
                            struct str key, const struct peer *except)
{
    const struct weight_table *table = set->balancer_data;
    unsigned misses = 0;

    if (table == NULL || pick->list->is_single) {
        return NULL;
    }
    for (unsigned i = 0; i < CHOOSE_DRAWS_MAX && misses <= CHOOSE_MISSES_MAX; i++) {
        uint64_t position = next_position(pick, key) % table->total;
        struct peer *peer = &set->peers[weight_table_at(table, position)];

        if (peer == except || peer_was_tried(pick, peer)) {
            continue;
        }
        if (peer_may_serve(pick, peer, false)) {
            return peer;
        }
        misses++;
    }
    return NULL;
}

/* ---- the least load ---- */

#define LOAD_NONE UINT64_MAX /* of a peer that may not serve */

void load_prepare(struct upstream_group *group, struct peer_set *set)
{
    /* Loads of one choice, by peer: they must not change between the two looks at them. */
    set->balancer_data = calloc(set->count == 0 ? 1 : set->count, sizeof(uint64_t));
    if (set->balancer_data == NULL) {
        fatal_no_memory(set->count * sizeof(uint64_t));
    }
}

void load_forget(struct peer_set *set)
{
    free(set->balancer_data);
    set->balancer_data = NULL;
}

bool load_is_less(uint64_t load_a, unsigned weight_a, uint64_t load_b, unsigned weight_b)
{
    return (unsigned __int128) load_a * weight_b < (unsigned __int128) load_b * weight_a;
}

/* The weight in force; never 0, so that a peer that has just come back is not an infinite load. */
static unsigned weight_of(const struct peer *peer)
{
    unsigned weight = peer_weight_now(peer);

    return weight != 0 ? weight : 1;
}

/* Weighted round robin among the peers whose load is as small as that of `least`. */
static struct peer *choose_among_equal(struct peer_set *set, const uint64_t *loads, unsigned least)
{
    unsigned weight_of_least = weight_of(&set->peers[least]);
    struct peer *best = NULL;
    int64_t total = 0;

    for (unsigned i = least; i < set->count; i++) {
        struct peer *peer = &set->peers[i];
        unsigned weight;

        if (loads[i] == LOAD_NONE) {
            continue;
        }
        weight = weight_of(peer);
        if (load_is_less(loads[least], weight_of_least, loads[i], weight)) {
            continue;
        }
        peer->current_weight += weight;
        total += weight;
        if (best == NULL || peer->current_weight > best->current_weight) {
            best = peer;
        }
    }
    best->current_weight -= total;
    return best;
}

struct peer *choose_least(struct upstream_pick *pick, struct peer_set *set,
                          uint64_t (*load)(const struct peer *peer, const void *arg),
                          const void *arg)
{
    uint64_t *loads = set->balancer_data;
    unsigned least = 0, weight_of_least = 0;
    bool is_shared = false; /* by a later peer */

    for (unsigned i = 0; i < set->count; i++) {
        struct peer *peer = &set->peers[i];
        unsigned weight;

        loads[i] = LOAD_NONE;
        if (!peer_may_serve(pick, peer, false)) {
            continue;
        }
        weight = weight_of(peer);
        loads[i] = load(peer, arg);
        if (weight_of_least == 0 || load_is_less(loads[i], weight, loads[least], weight_of_least)) {
            least = i;
            weight_of_least = weight;
            is_shared = false;
        } else {
            is_shared |= !load_is_less(loads[least], weight_of_least, loads[i], weight);
        }
    }
    if (weight_of_least == 0) {
        return NULL;
    }
    return is_shared ? choose_among_equal(set, loads, least) : &set->peers[least];
}

/* ---- by identity ---- */

struct str peer_digest(struct peer *peer)
{
    if (!peer->has_digest) {
        unsigned char md5[16];

        md5_of(peer->name, md5);
        hex_encode(peer->digest, md5, sizeof(md5));
        peer->has_digest = true;
    }
    return (struct str){peer->digest, sizeof(peer->digest)};
}

/* The first of a set that matches; one that may serve before one that may not. */
static struct peer *first_match(const struct upstream_pick *pick, const struct peer_set *set,
                                bool (*matches)(struct peer *peer, const void *arg),
                                const void *arg, bool *can_serve)
{
    struct peer *found = NULL;

    *can_serve = false;
    for (unsigned i = 0; i < set->count && !*can_serve; i++) {
        struct peer *peer = &set->peers[i];

        if (matches(peer, arg)) {
            *can_serve = peer_may_serve(pick, peer, true);
            found = found == NULL || *can_serve ? peer : found;
        }
    }
    return found;
}

static bool can_any_serve(const struct upstream_pick *pick, const struct peer_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (peer_may_serve(pick, &set->peers[i], false)) {
            return true;
        }
    }
    return false;
}

struct peer *choose_bound(const struct upstream_pick *pick,
                          bool (*matches)(struct peer *peer, const void *arg), const void *arg,
                          bool *can_serve)
{
    struct peer *primary = first_match(pick, &pick->list->primary, matches, arg, can_serve);
    struct peer *backup;

    if (*can_serve) {
        return primary;
    }
    backup = first_match(pick, &pick->list->backup, matches, arg, can_serve);
    if (*can_serve && !can_any_serve(pick, &pick->list->primary)) {
        return backup;
    }
    *can_serve = false;
    return primary;
}
