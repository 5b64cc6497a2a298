/* ngx_http_upstream_zone_module and ngx_stream_upstream_zone_module: the zone of a group. Workers
 * share the state of peers with or without it; its size limits the number of addresses that are
 * found at run time. */
#include "base/parse.h"
#include "server/module.h"
#include "shared/upstream/servers_sync.h"

static bool upstream_zone_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct upstream_group *group = scope_group(scope);
    struct store_sync_words sync = {0};
    uint64_t size = 0;
    bool is_sync;

    if (node->args[1].len == 0) {
        return conf_error(conf, node, "invalid zone name \"%.*s\"", STR_ARG(node->args[1]));
    }
    for (unsigned i = 2; i < node->count; i++) {
        if (!store_sync_read(conf, node, node->args[i], false, &sync, &is_sync)) {
            return false;
        }
        if (!is_sync && i > 2) {
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[i]));
        }
        if (!is_sync && !parse_size(node->args[i], &size)) {
            return conf_error(conf, node, "invalid zone size \"%.*s\"", STR_ARG(node->args[i]));
        }
    }
    if (!store_sync_check(conf, node, &sync)) {
        return false;
    }
    struct zone *zone = generation_zone(conf->generation, node, node->args[1], (size_t) size,
                                        scope_subsystem(scope));
    if (zone == NULL) {
        return false;
    }
    group->zone_name = zone->name;
    group->zone_size = size != 0 ? size : zone->size;
    return !sync.is_wanted || servers_sync_add(conf, node, group, &sync);
}

#define ZONE_ROW(CONTEXT)                                                                          \
    {                                                                                              \
        "zone", CONTEXT, CUSTOM(upstream_zone_apply), ARGS(1, 4),                                  \
            .repeat = REPEAT_CUSTOM, .syntax = "name [size] [sync[=store]] [sync_interval=time]",  \
            .doc = "Shared memory zone of the group. Workers share the state of its servers with " \
                   "or without it, but `resolve` requires it: its size limits the number of "      \
                   "addresses found at run time. With `sync` changes made with the API reach all " \
                   "nodes that share a `redis_store`."                                             \
    }

static const struct directive http_rows[] = {ZONE_ROW(IN_UPSTREAM), {0}};

static const struct directive stream_rows[] = {ZONE_ROW(IN_STREAM_UPSTREAM), {0}};

extern const struct module ngx_http_upstream_zone_module, ngx_stream_upstream_zone_module;
const struct module ngx_http_upstream_zone_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_zone_module",
    .kind = MODULE_HTTP,
    .table = {.rows = http_rows},
};
const struct module ngx_stream_upstream_zone_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_upstream_zone_module",
    .kind = MODULE_STREAM,
    .table = {.rows = stream_rows},
};
