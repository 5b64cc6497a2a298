/* least_conn: the peer with the fewest requests in progress. */
#include "upstream/methods/rows.h"

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

bool least_conn_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    upstream_set_balancer(scope, node, &balancer_least_conn, NULL);
    return true;
}
