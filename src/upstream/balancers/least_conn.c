/* ngx_http_upstream_least_conn_module: the peer with the fewest requests in progress. */
#include "server/module.h"
#include "upstream/picking/choose.h"

static uint64_t load_of(const struct peer *peer, const void *arg)
{
    return peer_active(peer->cell);
}

static struct peer *least_conn_pick(struct upstream_pick *pick, struct peer_set *set)
{
    return choose_least(pick, set, load_of, NULL);
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

static const struct directive least_conn_rows[] = {
    {"least_conn", IN_UPSTREAM, CUSTOM(least_conn_apply), ARGS(0, 0), .repeat = REPEAT_CUSTOM,
     .doc = "The server with the fewest requests in progress for its weight; several with the same "
            "get their turns by weight."},
    {0},
};

static const struct directive_table least_conn_table = {.rows = least_conn_rows};
static const struct directive_table *const least_conn_tables[] = {&least_conn_table, NULL};

const struct module ngx_http_upstream_least_conn_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_least_conn_module",
    .kind = MODULE_HTTP,
    .tables = least_conn_tables,
};
