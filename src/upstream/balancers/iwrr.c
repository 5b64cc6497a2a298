/* ngx_http_upstream_iwrr_module, of Tengine: interleaved weighted round robin, which takes the same
 * time for any number of peers and needs one word for each. */
#include <stdlib.h>

#include "base/checksum.h"
#include "base/fatal.h"
#include "server/module.h"
#include "upstream/peer.h"

/*
 * Of one set of peers. A cycle has as many rounds as the greatest weight; in round n everybody has
 * a turn whose weight is n or more. Sorted by falling weight these are the first ones.
 */
struct rounds {
    unsigned round;   /* from 1 */
    unsigned next;    /* whose turn it is in this round: index of order */
    unsigned present; /* how many have a turn in this round */
    uint32_t order[]; /* the set's peers by falling weight */
};

/* qsort hands over no argument: the set that is being sorted. */
static const struct peer_set *sorted_set;

static int by_falling_weight(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *) a, right = *(const uint32_t *) b;
    unsigned left_weight = sorted_set->peers[left].weight;
    unsigned right_weight = sorted_set->peers[right].weight;

    if (left_weight != right_weight) {
        return left_weight > right_weight ? -1 : 1;
    }
    return left < right ? -1 : left > right;
}

static void iwrr_prepare(struct upstream_group *group, struct peer_set *set)
{
    struct rounds *rounds;

    if (set->count == 0) {
        return;
    }
    rounds = calloc(1, sizeof(*rounds) + set->count * sizeof(rounds->order[0]));
    if (rounds == NULL) {
        fatal_no_memory(set->count * sizeof(rounds->order[0]));
    }
    for (unsigned i = 0; i < set->count; i++) {
        rounds->order[i] = i;
    }
    sorted_set = set;
    qsort(rounds->order, set->count, sizeof(rounds->order[0]), by_falling_weight);
    rounds->round = 1;
    rounds->present = set->count;
    /* Workers, and servers side by side, do not begin with the same peer. */
    rounds->next = random_uint32() % set->count;
    set->balancer_data = rounds;
}

static void iwrr_forget(struct peer_set *set)
{
    free(set->balancer_data);
    set->balancer_data = NULL;
}

static void begin_round(struct rounds *rounds, const struct peer_set *set)
{
    rounds->next = 0;
    rounds->round++;
    while (rounds->present > 0 &&
           set->peers[rounds->order[rounds->present - 1]].weight < rounds->round) {
        rounds->present--;
    }
    if (rounds->present == 0) {
        rounds->round = 1;
        rounds->present = set->count;
    }
}

static struct peer *iwrr_pick(struct upstream_pick *pick, struct peer_set *set)
{
    struct rounds *rounds = set->balancer_data;

    for (unsigned i = 0; rounds != NULL && i < set->count; i++) {
        struct peer *peer = &set->peers[rounds->order[rounds->next++]];

        if (rounds->next == rounds->present) {
            begin_round(rounds, set);
        }
        if (peer_may_serve(pick, peer, false)) {
            return peer;
        }
    }
    return round_robin_pick(pick, set);
}

static const struct balancer balancer_iwrr = {
    .name = "iwrr",
    .prepare = iwrr_prepare,
    .forget = iwrr_forget,
    .pick = iwrr_pick,
};

static bool iwrr_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    upstream_set_balancer(scope, node, &balancer_iwrr, NULL);
    return true;
}

static const struct directive iwrr_rows[] = {
    {"iwrr", IN_UPSTREAM, CUSTOM(iwrr_apply), ARGS(0, 0), .repeat = REPEAT_CUSTOM,
     .doc = "Interleaved weighted round robin. It starts at a random server, and selects in "
            "constant time and with little memory for any number of servers and weights."},
    {0},
};

const struct module ngx_http_upstream_iwrr_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_iwrr_module",
    .kind = MODULE_HTTP,
    .table = {.rows = iwrr_rows},
};
