/* ngx_http_upstream_least_time_module: the peer that answers fastest and has the fewest requests. */
#include "server/module.h"
#include "upstream/cells/peer_time.h"
#include "upstream/picking/choose.h"

static struct peer *least_time_pick(struct upstream_pick *pick, struct peer_set *set)
{
    return choose_least(pick, set, peer_time_load, pick->group->balancer_settings);
}

static void least_time_responded(struct upstream_pick *pick)
{
    peer_time_responded(pick, pick->group->balancer_settings);
}

static void least_time_done(struct upstream_pick *pick, struct peer *peer,
                            enum peer_outcome outcome)
{
    peer_time_done(pick, outcome);
}

static const struct balancer balancer_least_time = {
    .name = "least_time",
    .prepare = load_prepare,
    .forget = load_forget,
    .pick = least_time_pick,
    .picked = peer_time_picked,
    .responded = least_time_responded,
    .done = least_time_done,
};

static bool least_time_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct peer_time_kind *kind = arena_new(scope->conf->arena, struct peer_time_kind);
    const struct str *bad = NULL;

    upstream_set_balancer(scope, node, &balancer_least_time, kind);
    kind->is_header = str_is(node->args[1], "header");
    if (!kind->is_header && !str_is(node->args[1], "last_byte")) {
        bad = &node->args[1];
    } else if (node->count == 3) {
        kind->is_inflight = str_is(node->args[2], "inflight");
        bad = kind->is_inflight ? NULL : &node->args[2];
    }
    return bad == NULL ||
           conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(*bad));
}

static const struct directive least_time_rows[] = {
    {"least_time", IN_UPSTREAM, CUSTOM(least_time_apply), ARGS(1, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "header | last_byte [inflight]",
     .doc =
         "The server with the least average time of answers, times its requests in progress, for "
         "its weight. `header` counts the time until an answer begins, `last_byte` until it is "
         "whole; with `inflight` requests that still wait count, too."},
    {0},
};

static const struct directive_table least_time_table = {.rows = least_time_rows};
static const struct directive_table *const least_time_tables[] = {&least_time_table, NULL};

const struct module ngx_http_upstream_least_time_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_least_time_module",
    .kind = MODULE_HTTP,
    .tables = least_time_tables,
};
