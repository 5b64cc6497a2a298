/* Weighted round robin, smooth: of the weights 5, 1, 1 come a a b a c a a, not five a in a row. */
#include "base/checksum.h"
#include "base/clock.h"
#include "upstream/private.h"

/* The part of its weight that a peer has, of PEER_WEIGHT_UNIT: all of it without slow_start, and
 * when the peer has been up for longer than that. */
static unsigned slow_start_share(const struct peer *peer)
{
    uint64_t slow_start_ms = peer->server->slow_start_ms;

    if (slow_start_ms == 0) {
        return PEER_WEIGHT_UNIT;
    }
    uint64_t up_at_ms = atomic_load_explicit(&peer->cell->up_at_ms, memory_order_relaxed);
    if (up_at_ms == 0 || clock_now.now_ms - up_at_ms >= slow_start_ms) {
        return PEER_WEIGHT_UNIT;
    }
    uint64_t elapsed_ms = clock_now.now_ms > up_at_ms ? clock_now.now_ms - up_at_ms : 0;
    unsigned share = (unsigned) (elapsed_ms * PEER_WEIGHT_UNIT / slow_start_ms);
    return share == 0 ? 1 : share;
}

unsigned peer_weight_now(const struct peer *peer)
{
    int64_t weight = peer->effective_weight > 0 ? peer->effective_weight : 0;

    return weight == 0 ? 1 : (unsigned) weight * slow_start_share(peer);
}

struct peer *round_robin_pick(struct upstream_pick *pick, struct peer_set *set)
{
    struct peer *best = NULL;
    int64_t total = 0;

    for (unsigned i = 0; i < set->count; i++) {
        struct peer *peer = &set->peers[i];

        if (!peer_may_serve(pick, peer, false)) {
            continue;
        }
        int64_t weight = peer->effective_weight * slow_start_share(peer);
        peer->current_weight += weight;
        total += weight;
        if (peer->effective_weight < peer->weight) {
            peer->effective_weight++;
        }
        if (best == NULL || peer->current_weight > best->current_weight) {
            best = peer;
        }
    }
    if (best != NULL) {
        best->current_weight -= total;
    }
    return best;
}

/* Looks at peers that discarding turns may take at the start of a worker. */
#define DISCARD_WORK 10000000

void round_robin_discard(const struct upstream_set *set, struct peer_set *peers)
{
    /* After total_weight turns it is where it was. */
    uint64_t most =
        set->discard_most < peers->total_weight ? set->discard_most : peers->total_weight;

    if (most < 2) {
        return;
    }
    if (most > DISCARD_WORK / peers->count) {
        most = DISCARD_WORK / peers->count + 1;
    }
    for (uint64_t n = random_uint32() % most; n != 0; n--) {
        struct peer *best = peers->peers;

        for (unsigned i = 0; i < peers->count; i++) {
            struct peer *peer = &peers->peers[i];

            peer->current_weight += peer->weight * (int64_t) PEER_WEIGHT_UNIT;
            best = peer->current_weight > best->current_weight ? peer : best;
        }
        best->current_weight -= peers->total_weight * (int64_t) PEER_WEIGHT_UNIT;
    }
}

const struct balancer balancer_round_robin = {.name = "round_robin", .pick = round_robin_pick};
