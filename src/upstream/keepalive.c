/* ngx_http_upstream_keepalive_module: how many idle connections a group keeps, and for how long. */
#include "base/parse.h"
#include "server/module.h"
#include "upstream/private.h"

/* What the rows of a block say; goes into the group when the block was read. */
struct keepalive_settings {
    int64_t requests;
    uint64_t time_ms;
    uint64_t timeout_ms;
};

static bool keepalive_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct upstream_group *group;
    uint64_t n;

    (void) row;
    (void) settings;
    if (!parse_uint(node->args[1], &n) || n > INT32_MAX) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\" in \"%.*s\" directive",
                          STR_ARG(node->args[1]), STR_ARG(node->args[0]));
    }
    if (node->count > 2 && !str_is(node->args[2], "local")) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    if (scope->parent == NULL) {
        return true; /* the default, which groups have of themselves */
    }
    group = scope_group(scope);
    group->keepalive = (unsigned) n;
    group->is_keepalive_local = node->count > 2;
    group->is_keepalive_set = true;
    return true;
}

static bool keepalive_finish(struct conf_scope *scope, void *settings)
{
    const struct keepalive_settings *written = settings;
    struct upstream_group *group = scope_group(scope);

    group->keepalive_requests = written->requests;
    group->keepalive_time_ms = written->time_ms;
    group->keepalive_timeout_ms = written->timeout_ms;
    return true;
}

#define K struct keepalive_settings
static const struct directive keepalive_rows[] = {
    {"keepalive", IN_UPSTREAM, CUSTOM(keepalive_apply), ARGS(1, 2), .initial = "32 local",
     .syntax = "connections [local]",
     .doc = "Idle connections that each worker keeps, 0 for none. With `local` each place that "
            "passes requests to the group has a pool of its own; without it they share one."},
    {"keepalive_requests", IN_UPSTREAM, NUMBER(K, requests), .initial = "1000",
     .doc = "Requests on one connection; then it is closed."},
    {"keepalive_time", IN_UPSTREAM, MSEC(K, time_ms), .initial = "1h",
     .doc = "Longest life of a connection; it is closed after the request that is under way then."},
    {"keepalive_timeout", IN_UPSTREAM, MSEC(K, timeout_ms), .initial = "60s",
     .doc = "Longest rest of an idle connection."},
    {0},
};
#undef K

static struct directive_table keepalive_table = {.rows = keepalive_rows,
                                                 .contexts = IN_UPSTREAM,
                                                 .size = sizeof(struct keepalive_settings),
                                                 .finish = keepalive_finish};
static struct directive_table *const tables[] = {&keepalive_table, NULL};

extern const struct module ngx_http_upstream_keepalive_module;
const struct module ngx_http_upstream_keepalive_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_keepalive_module",
    .kind = MODULE_HTTP,
    .tables = tables,
};
