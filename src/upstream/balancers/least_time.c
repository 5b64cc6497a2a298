/* least_time: the peer that answers fastest and has the fewest requests. */
#include "server/module.h"
#include "upstream/cells/peer_time.h"
#include "upstream/picking/choose.h"
#include "upstream/upstream.h"

static struct peer *least_time_pick(struct upstream_pick *pick, struct peer_set *set)
{
    return choose_least(pick, set, peer_time_load, pick->group->balancer_settings);
}

static void least_time_connected(struct upstream_pick *pick)
{
    peer_time_connected(pick, pick->group->balancer_settings);
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
    .connected = least_time_connected,
    .responded = least_time_responded,
    .done = least_time_done,
};

static bool least_time_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct peer_time_kind *kind = arena_new(scope->conf->arena, struct peer_time_kind);
    const struct str *bad = NULL;

    upstream_set_balancer(scope, node, &balancer_least_time, kind);
    if (!peer_time_read(node->args[1], scope_subsystem(scope) == &upstream_stream, kind)) {
        bad = &node->args[1];
    } else if (node->count == 3) {
        kind->is_inflight = str_is(node->args[2], "inflight");
        bad = kind->is_inflight ? NULL : &node->args[2];
    }
    return bad == NULL ||
           conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(*bad));
}

/* ---- the modules of http and stream ---- */

/* WORDS: the measured times of the protocol. */
#define LEAST_TIME_ROW(CONTEXT, WORDS, DOC)                                                        \
    {                                                                                              \
        "least_time", CONTEXT, CUSTOM(least_time_apply), ARGS(1, 2),                               \
            .repeat = REPEAT_CUSTOM, .syntax = WORDS " [inflight]",                                \
            .doc =                                                                                 \
                DOC ". With `inflight`, the average time for which unanswered ones have waited "   \
                    "is used instead if it is longer."                                             \
    }

static const struct directive http_least_time_rows[] =
    {LEAST_TIME_ROW(
         IN_UPSTREAM, "header | last_byte",
         "Selects the server with the lowest product of average response time and number of "
         "active requests, relative to its weight. `header` measures the time to the "
         "response header, `last_byte` to the end of the response"),
     {0}};

const struct module ngx_http_upstream_least_time_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_least_time_module",
    .kind = MODULE_HTTP,
    .table = {.rows = http_least_time_rows},
};

static const struct directive stream_least_time_rows[] =
    {LEAST_TIME_ROW(
         IN_STREAM_UPSTREAM, "connect | first_byte | last_byte",
         "Selects the server with the lowest product of average time and number of active "
         "sessions, relative to its weight. `connect` measures the time to connect, "
         "`first_byte` to the first byte of data, `last_byte` to the end of the session"),
     {0}};

const struct module ngx_stream_upstream_least_time_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_upstream_least_time_module",
    .kind = MODULE_STREAM,
    .table = {.rows = stream_least_time_rows},
};
