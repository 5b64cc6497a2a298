/* ngx_http_upstream_fair_module: the peer with the fewest requests, in the ways that nginx's module
 * of this name has. */
#include "server/module.h"
#include "upstream/picking/choose.h"

enum fair_mode {
    FAIR_BY_WEIGHT, /* requests in progress are distributed by weight */
    FAIR_IDLE,      /* a peer is idle up to as many requests as its weight */
    FAIR_PEAK,      /* the weight of a peer also limits its requests */
};

struct fair_settings {
    enum fair_mode mode;
    bool has_no_turns; /* no_rr: of peers with the same load always the first, not each in turn */
};

static uint64_t fair_load(const struct peer *peer, const void *arg)
{
    const struct fair_settings *settings = arg;
    uint64_t active = peer_active(peer->cell);

    return settings->mode == FAIR_IDLE && active < peer->weight ? 0 : active;
}

/* The first of the peers with the least load for their weight that may get the request; NULL: none
 * may. */
static struct peer *first_of_least(const struct upstream_pick *pick, struct peer_set *set,
                                   const struct fair_settings *settings)
{
    struct peer *best = NULL;
    uint64_t least = 0;

    for (unsigned i = 0; i < set->count; i++) {
        struct peer *peer = &set->peers[i];
        if (!peer_may_serve(pick, peer, false)) {
            continue;
        }
        uint64_t load = fair_load(peer, settings);
        if (best == NULL || load_is_less(load, peer->weight, least, best->weight)) {
            best = peer;
            least = load;
        }
    }
    return best;
}

static struct peer *fair_pick(struct upstream_pick *pick, struct peer_set *set)
{
    const struct fair_settings *settings = pick->group->balancer_settings;

    return settings->has_no_turns ? first_of_least(pick, set, settings)
                                  : choose_least(pick, set, fair_load, settings);
}

/* weight_mode=peak: the weight is also the server's max_conns, unless it has one of its own. */
static void fair_prepare(struct upstream_group *group, struct peer_set *set)
{
    const struct fair_settings *settings = group->balancer_settings;

    vec_each(struct upstream_server *, server, &group->servers) {
        if (settings->mode == FAIR_PEAK && (*server)->max_conns == 0) {
            (*server)->max_conns = (*server)->weight;
        }
    }
    load_prepare(group, set);
}

static const struct balancer balancer_fair = {
    .name = "fair",
    .prepare = fair_prepare,
    .forget = load_forget,
    .pick = fair_pick,
};

static bool fair_read_parameter(struct fair_settings *settings, struct str parameter)
{
    enum fair_mode mode = FAIR_BY_WEIGHT;

    if (str_is(parameter, "no_rr")) {
        settings->has_no_turns = true;
        return true;
    }
    if (str_is(parameter, "weight_mode=idle")) {
        mode = FAIR_IDLE;
    } else if (str_is(parameter, "weight_mode=peak")) {
        mode = FAIR_PEAK;
    }
    settings->mode = mode;
    return mode != FAIR_BY_WEIGHT;
}

static bool fair_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *arg)
{
    struct fair_settings *settings = arena_new(scope->conf->arena, struct fair_settings);

    for (unsigned i = 1; i < node->count; i++) {
        enum fair_mode before = settings->mode;
        if (!fair_read_parameter(settings, node->args[i])) {
            return conf_error(scope->conf, node, "Invalid `fair' parameter `%.*s'",
                              STR_ARG(node->args[i]));
        }
        if (before != FAIR_BY_WEIGHT && settings->mode != before) {
            return conf_error(scope->conf, node, "weight_mode= options are mutually exclusive");
        }
    }
    upstream_set_balancer(scope, node, &balancer_fair, settings);
    return true;
}

static const struct directive fair_rows[] = {
    {"fair", IN_UPSTREAM, CUSTOM(fair_apply), ARGS(0, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "[weight_mode=idle | weight_mode=peak] [no_rr]",
     .doc = "Selects the server with the fewest active requests relative to its weight, as "
            "least_conn does. With `weight_mode=idle`, servers with fewer active requests than "
            "their weight count as idle. With `weight_mode=peak`, the weight of a server is also "
            "its max_conns, unless that is set. Equal servers are used in turn, or with `no_rr` "
            "always the first."},
    {"upstream_fair_shm_size", IN_HTTP, OBSOLETE, ARGS(1, 1), .syntax = "size",
     .doc = "Accepted and ignored: the module needs no zone of its own."},
    {0},
};

const struct module ngx_http_upstream_fair_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_fair_module",
    .kind = MODULE_HTTP,
    .table = {.rows = fair_rows},
};
