/* ngx_http_upstream_consistent_hash_module, of Tengine: consistent hashing of a variable, by
 * servers that may have an identity of their own. */
#include "base/checksum.h"
#include "server/module.h"
#include "upstream/picking/choose.h"
#include "upstream/picking/ring.h"

/* `id=` of the server line keeps a server's keys when its address changes. */
static struct str identity(const struct peer *peer)
{
    return peer->server->id.len != 0 ? peer->server->id : peer->name;
}

static void consistent_hash_prepare(struct upstream_group *group, struct peer_set *set)
{
    set->balancer_data = ring_new(set, identity);
}

/* With max_fails=0, no other server replaces a key's server after its attempt failed. */
static bool stays_with_owner(const struct upstream_pick *pick, const struct peer_set *set,
                             uint32_t hash, const struct peer *peer)
{
    const struct peer *owner = ring_owner_of(set, hash);

    return owner->server->max_fails == 0 && peer->server != owner->server &&
           peer_was_tried(pick, owner);
}

static struct peer *consistent_hash_pick(struct upstream_pick *pick, struct peer_set *set)
{
    struct str key = template_text(pick->group->balancer_settings, pick->env);

    if (key.len == 0) {
        return round_robin_pick(pick, set);
    }
    uint32_t hash = crc32_of(key);
    struct peer *peer = ring_pick(pick, set, hash);
    bool is_refused = peer != NULL && pick->tries != 0 && stays_with_owner(pick, set, hash, peer);
    return is_refused ? NULL : peer;
}

static const struct balancer balancer_consistent_hash = {
    .name = "consistent_hash",
    .prepare = consistent_hash_prepare,
    .forget = ring_forget,
    .pick = consistent_hash_pick,
};

static bool consistent_hash_apply(struct conf_scope *scope, const struct directive *row,
                                  struct conf_node *node, void *settings)
{
    struct template *key = template_compile(scope->conf, node, node->args[1]);

    if (key == NULL) {
        return false;
    }
    upstream_set_balancer(scope, node, &balancer_consistent_hash, key);
    return true;
}

static const struct directive consistent_hash_rows[] = {
    {"consistent_hash", IN_UPSTREAM, CUSTOM(consistent_hash_apply), ARGS(1, 1),
     .repeat = REPEAT_CUSTOM, .syntax = "$variable",
     .doc = "Passes requests with the same value to the same server; when a server is added or "
            "removed, only few values move to another one. `id=` of a server is hashed in place "
            "of its address. A server with `max_fails=0` keeps its keys even when it fails; "
            "their requests then end with 502."},
    {0},
};

const struct module ngx_http_upstream_consistent_hash_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_consistent_hash_module",
    .kind = MODULE_HTTP,
    .table = {.rows = consistent_hash_rows},
};
