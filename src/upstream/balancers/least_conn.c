/* least_conn: the peer with the fewest requests in progress. */
#include "server/module.h"
#include "upstream/picking/choose.h"
#include "upstream/upstream.h"

static uint64_t active_of(const struct peer *peer, const void *arg)
{
    return peer_active(peer->cell);
}

static struct peer *least_conn_pick(struct upstream_pick *pick, struct peer_set *set)
{
    return choose_least(pick, set, active_of, NULL);
}

static const struct balancer balancer_least_conn = {
    .name = "least_conn",
    .prepare = load_prepare,
    .forget = load_forget,
    .pick = least_conn_pick,
};

static bool least_conn_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    upstream_set_balancer(scope, node, &balancer_least_conn, NULL);
    return true;
}

/* ---- the modules of http and stream ---- */

#define LEAST_CONN_ROW(CONTEXT)                                                                    \
    {                                                                                              \
        "least_conn", CONTEXT, CUSTOM(least_conn_apply), ARGS(0, 0),                               \
            .repeat = REPEAT_CUSTOM,                                                               \
            .doc = "Selects the server with the fewest active requests relative to its "           \
                   "weight. Equal servers are used in turn, by weighted round robin."              \
    }

static const struct directive http_least_conn_rows[] = {LEAST_CONN_ROW(IN_UPSTREAM), {0}};

const struct module ngx_http_upstream_least_conn_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_least_conn_module",
    .kind = MODULE_HTTP,
    .table = {.rows = http_least_conn_rows},
};

static const struct directive stream_least_conn_rows[] = {LEAST_CONN_ROW(IN_STREAM_UPSTREAM), {0}};

const struct module ngx_stream_upstream_least_conn_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_upstream_least_conn_module",
    .kind = MODULE_STREAM,
    .table = {.rows = stream_least_conn_rows},
};
