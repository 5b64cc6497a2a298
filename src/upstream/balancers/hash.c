/* hash: requests with the same key go to the same peer. */
#include "base/checksum.h"
#include "base/parse.h"
#include "server/module.h"
#include "upstream/picking/choose.h"
#include "upstream/picking/ring.h"
#include "upstream/upstream.h"

/* ---- on the line of weights ---- */

/*
 * The key's number, as observed of nginx: bits 16 to 30 of its CRC-32. Hashed again for the n-th
 * time, n is written before the key, and the result is added to what was.
 */
static uint64_t hash_again(struct upstream_pick *pick, struct str key)
{
    char digits[20];
    struct str number = {digits, 0};

    if (pick->rehash != 0) {
        number = str_from(digits, format_uint(digits, pick->rehash));
        key = arena_concat(pick->arena, number, key);
    }
    pick->hash += (crc32_of(key) >> 16) & 0x7fff;
    pick->rehash++;
    return pick->hash;
}

static struct peer *hash_pick(struct upstream_pick *pick, struct peer_set *set)
{
    struct str key = template_text(pick->group->balancer_settings, pick->env);
    struct peer *peer = key.len == 0 ? NULL : choose_on_line(pick, set, hash_again, key, NULL);

    return peer != NULL ? peer : round_robin_pick(pick, set);
}

static const struct balancer balancer_hash = {
    .name = "hash",
    .prepare = weight_table_prepare,
    .forget = weight_table_forget,
    .pick = hash_pick,
    .refuses_backup = true,
};

/* ---- on a ring ---- */

static void hash_ring_prepare(struct upstream_group *group, struct peer_set *set)
{
    set->balancer_data = ring_new(set, ring_identity_written);
}

static struct peer *hash_ring_pick(struct upstream_pick *pick, struct peer_set *set)
{
    struct str key = template_text(pick->group->balancer_settings, pick->env);

    if (key.len == 0 || pick->list->is_single) {
        return round_robin_pick(pick, set);
    }
    return ring_pick(pick, set, crc32_of(key));
}

static const struct balancer balancer_hash_ring = {
    .name = "hash consistent",
    .prepare = hash_ring_prepare,
    .forget = ring_forget,
    .pick = hash_ring_pick,
    .refuses_backup = true,
};

/* ---- the directive ---- */

static bool hash_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    bool is_ring = node->count == 3;
    struct template *key;

    key = template_compile(scope->conf, node, node->args[1]);
    if (key == NULL) {
        return false;
    }
    upstream_set_balancer(scope, node, is_ring ? &balancer_hash_ring : &balancer_hash, key);
    if (is_ring && !str_is(node->args[2], "consistent")) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    return true;
}

/* ---- the modules of http and stream ---- */

#define HASH_ROW(CONTEXT)                                                                          \
    {                                                                                              \
        "hash", CONTEXT, CUSTOM(hash_apply), ARGS(1, 2),                                           \
            .repeat = REPEAT_CUSTOM, .syntax = "key [consistent]",                                 \
            .doc = "Passes requests with the same key to the same server. With `consistent` "      \
                   "(ketama), only few keys move to another server when one is added or "          \
                   "removed."                                                                      \
    }

static const struct directive http_hash_rows[] = {HASH_ROW(IN_UPSTREAM), {0}};

const struct module ngx_http_upstream_hash_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_hash_module",
    .kind = MODULE_HTTP,
    .table = {.rows = http_hash_rows},
};

static const struct directive stream_hash_rows[] = {HASH_ROW(IN_STREAM_UPSTREAM), {0}};

const struct module ngx_stream_upstream_hash_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_upstream_hash_module",
    .kind = MODULE_STREAM,
    .table = {.rows = stream_hash_rows},
};
