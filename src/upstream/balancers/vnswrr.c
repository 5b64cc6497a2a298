/* ngx_http_upstream_vnswrr_module, of Tengine: smooth weighted round robin whose turns are laid
 * down once, so that a pick costs the same for any number of peers. */
#include <stdlib.h>

#include "base/checksum.h"
#include "base/fatal.h"
#include "base/parse.h"
#include "server/module.h"
#include "upstream/peer.h"

#define TURNS_MAX (1u << 22) /* 16 MB for a set; above it round robin does */

/* Of one group. */
struct vnswrr_settings {
    int64_t max_init; /* turns computed at a time; 0: as many as there are peers */
};

/* Of one set of peers. A round gives each peer as many turns as its share of the weights. */
struct turns {
    unsigned batch;   /* turns laid down at a time */
    unsigned total;   /* turns of a round */
    unsigned count;   /* laid down so far */
    unsigned next;    /* whose turn it is */
    unsigned divisor; /* of the weights: what they have in common */
    int64_t *current; /* by peer: of smooth weighted round robin; owned */
    uint32_t *peers;  /* by turn: index of the peer; owned; untouched pages cost nothing */
};

static unsigned greatest_common_divisor(unsigned a, unsigned b)
{
    while (b != 0) {
        unsigned rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* One more turn: that of the peer that is furthest behind its share. */
static void lay_turn(struct turns *turns, const struct peer_set *set)
{
    unsigned best = 0;

    for (unsigned i = 0; i < set->count; i++) {
        turns->current[i] += set->peers[i].weight / turns->divisor;
        if (turns->current[i] > turns->current[best]) {
            best = i;
        }
    }
    turns->current[best] -= turns->total;
    turns->peers[turns->count++] = best;
}

static void lay_batch(struct turns *turns, const struct peer_set *set)
{
    for (unsigned i = 0; i < turns->batch && turns->count < turns->total; i++) {
        lay_turn(turns, set);
    }
}

static void vnswrr_prepare(struct upstream_group *group, struct peer_set *set)
{
    const struct vnswrr_settings *settings = group->balancer_settings;
    unsigned divisor = 0;
    uint64_t total = 0;
    struct turns *turns;

    for (unsigned i = 0; i < set->count; i++) {
        divisor = greatest_common_divisor(set->peers[i].weight, divisor);
        total += set->peers[i].weight;
    }
    if (divisor == 0 || total / divisor > TURNS_MAX) {
        return;
    }
    turns = calloc(1, sizeof(*turns));
    if (turns == NULL) {
        fatal_no_memory(sizeof(*turns));
    }
    turns->divisor = divisor;
    turns->total = (unsigned) (total / divisor);
    turns->batch = settings->max_init > 0 ? (unsigned) settings->max_init : set->count;
    turns->current = calloc(set->count, sizeof(*turns->current));
    turns->peers = calloc(turns->total, sizeof(*turns->peers));
    if (turns->current == NULL || turns->peers == NULL) {
        fatal_no_memory(turns->total * sizeof(*turns->peers));
    }
    lay_batch(turns, set);
    /* Workers, and servers side by side, do not begin with the same peer. */
    turns->next = random_uint32() % turns->count;
    set->balancer_data = turns;
}

static void vnswrr_forget(struct peer_set *set)
{
    struct turns *turns = set->balancer_data;

    if (turns != NULL) {
        free(turns->current);
        free(turns->peers);
        free(turns);
    }
    set->balancer_data = NULL;
}

static struct peer *vnswrr_pick(struct upstream_pick *pick, struct peer_set *set)
{
    struct turns *turns = set->balancer_data;

    for (unsigned i = 0; turns != NULL && i < set->count; i++) {
        struct peer *peer;

        if (turns->next == turns->count) {
            lay_batch(turns, set);
        }
        peer = &set->peers[turns->peers[turns->next++]];
        if (turns->next == turns->total) {
            turns->next = 0;
        }
        if (peer_may_serve(pick, peer, false)) {
            return peer;
        }
    }
    return round_robin_pick(pick, set);
}

static const struct balancer balancer_vnswrr = {
    .name = "vnswrr",
    .prepare = vnswrr_prepare,
    .forget = vnswrr_forget,
    .pick = vnswrr_pick,
};

static bool vnswrr_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *unused)
{
    struct vnswrr_settings *settings = arena_new(scope->conf->arena, struct vnswrr_settings);

    upstream_set_balancer(scope, node, &balancer_vnswrr, settings);
    if (node->count == 2) {
        struct str word = node->args[1];
        uint64_t number;

        if (!str_starts(word, STR("max_init=")) ||
            !parse_uint(str_skip(word, sizeof("max_init=") - 1), &number) || number > TURNS_MAX) {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
        }
        settings->max_init = (int64_t) number;
    }
    return true;
}

static const struct directive vnswrr_rows[] = {
    {"vnswrr", IN_UPSTREAM, CUSTOM(vnswrr_apply), ARGS(0, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "[max_init=number]",
     .doc = "Weighted round robin that starts at a random server and selects in constant time "
            "for any number of servers. `max_init` sets how many turns are computed at a time; "
            "by default, as many as there are servers."},
    {0},
};

const struct module ngx_http_upstream_vnswrr_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_vnswrr_module",
    .kind = MODULE_HTTP,
    .table = {.rows = vnswrr_rows},
};
