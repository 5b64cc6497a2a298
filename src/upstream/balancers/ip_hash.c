/* ngx_http_upstream_ip_hash_module: a client's network goes to the same peer. */
#include "server/module.h"
#include "upstream/picking/choose.h"

/*
 * The number of a client, as observed of nginx: each byte is taken in by n = n * 113 + byte, modulo
 * 6271, beginning with 89; the first three of IPv4, all of IPv6, three of zero for clients without
 * an IP address. It is the place on the line of weights. Hashed again, it continues from where it
 * was.
 */
#define HASH_START 89
#define HASH_FACTOR 113
#define HASH_MODULUS 6271

static uint64_t hash_network(struct upstream_pick *pick, struct str network)
{
    if (pick->rehash++ == 0) {
        pick->hash = HASH_START;
    }
    for (size_t i = 0; i < network.len; i++) {
        pick->hash = (pick->hash * HASH_FACTOR + (unsigned char) network.data[i]) % HASH_MODULUS;
    }
    return pick->hash;
}

/* What counts of the client's address: of $binary_remote_addr, which a real address that a proxy
 * reported has changed already. */
static struct str network_of(const struct upstream_pick *pick)
{
    struct str client;

    if (variable_get(pick->env, pick->group->balancer_settings, &client)) {
        if (client.len == 4) {
            return str_head(client, 3);
        }
        if (client.len == 16) {
            return client;
        }
    }
    return (struct str){"\0\0\0", 3};
}

static struct peer *ip_hash_pick(struct upstream_pick *pick, struct peer_set *set)
{
    struct peer *peer = choose_on_line(pick, set, hash_network, network_of(pick), NULL);

    return peer != NULL ? peer : round_robin_pick(pick, set);
}

static const struct balancer balancer_ip_hash = {
    .name = "ip_hash",
    .prepare = weight_table_prepare,
    .forget = weight_table_forget,
    .pick = ip_hash_pick,
    .refuses_backup = true,
};

static bool ip_hash_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct variable *client =
        variable_use(conf, node, conf_variables(conf), STR("binary_remote_addr"));

    upstream_set_balancer(scope, node, &balancer_ip_hash, client);
    return client != NULL;
}

static const struct directive ip_hash_rows[] = {
    {"ip_hash", IN_UPSTREAM, CUSTOM(ip_hash_apply), ARGS(0, 0), .repeat = REPEAT_CUSTOM,
     .doc = "Passes clients of the same network to the same server. The key is the first three "
            "bytes of an IPv4 address, or a whole IPv6 address."},
    {0},
};

const struct module ngx_http_upstream_ip_hash_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_ip_hash_module",
    .kind = MODULE_HTTP,
    .table = {.rows = ip_hash_rows},
};
