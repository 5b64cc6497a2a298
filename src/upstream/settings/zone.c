/* ngx_http_upstream_zone_module and ngx_stream_upstream_zone_module: the zone of a group. What workers know of peers is shared with or
 * without it; its size says how many addresses found at run time there is room for. */
#include "base/parse.h"
#include "server/module.h"
#include "upstream/private.h"

static bool settings_zone_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct upstream_group *group = scope_group(scope);
    uint64_t size = 0;

    if (node->args[1].len == 0) {
        return conf_error(conf, node, "invalid zone name \"%.*s\"", STR_ARG(node->args[1]));
    }
    if (node->count > 2 && !parse_size(node->args[2], &size)) {
        return conf_error(conf, node, "invalid zone size \"%.*s\"", STR_ARG(node->args[2]));
    }
    struct zone *zone = generation_zone(conf->generation, node, node->args[1], (size_t) size,
                                        scope_subsystem(scope));
    if (zone == NULL) {
        return false;
    }
    group->zone_name = zone->name;
    group->zone_size = size != 0 ? size : zone->size;
    return true;
}

#define ZONE_ROW(CONTEXT)                                                                          \
    {                                                                                              \
        "zone", CONTEXT, CUSTOM(settings_zone_apply), ARGS(1, 2),                                  \
            .repeat = REPEAT_CUSTOM, .syntax = "name [size]",                                      \
            .doc = "Shared memory of the group. All workers share what they know of its servers "  \
                   "with or without it; `resolve` needs it: its size limits the addresses found "  \
                   "at run time."                                                                  \
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
