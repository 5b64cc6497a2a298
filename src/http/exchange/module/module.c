/* ngx_http_upstream_module: groups of servers in http, the variables of exchanges, and what workers
 * do for backends and caches. */
#include "cache/cache.h"
#include "http/exchange/module/variables.h"
#include "http/routing/hooks.h"
#include "http/routing/settings.h"
#include "net/resolver/resolver.h"
#include "server/module.h"
#include "upstream/upstream.h"

/* Groups without a resolver of their own use the one of the http block. */
static bool hand_resolver_down(struct conf_scope *scope, void *settings)
{
    const struct http_location *location = scope_location(scope);

    upstream_set_error_log(upstream_set_of(scope->conf, &upstream_http), &location->error_log);
    upstream_set_resolver(upstream_set_of(scope->conf, &upstream_http), location->resolver,
                          location->resolver_timeout_ms);
    return true;
}

static const struct directive_table resolver_table = {.contexts = IN_HTTP,
                                                      .finish = hand_resolver_down};

static const struct directive_table *const tables[] = {&upstream_http_block_table,
                                                       &upstream_http_group_table, &resolver_table,
                                                       NULL};

static bool module_configured(struct conf *conf, struct generation *generation)
{
    bool is_good = upstream_finish(conf, &upstream_http);

    return cache_configured(conf, generation) && is_good;
}

static bool module_worker_start(struct generation *generation)
{
    return upstream_worker_start(generation, &upstream_http) && cache_worker_start(generation);
}

static void module_worker_quit(struct generation *generation)
{
    upstream_worker_quit(generation, &upstream_http);
    cache_worker_quit(generation);
}

static void module_worker_abort(struct generation *generation)
{
    upstream_worker_quit(generation, &upstream_http);
    cache_worker_abort(generation);
    resolver_close_all();
}

static void module_worker_end(struct generation *generation)
{
    upstream_worker_end(generation, &upstream_http);
    cache_worker_end(generation);
    resolver_close_all();
}

static const struct http_module hooks = {.variables = exchange_variables};

const struct module ngx_http_upstream_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_module",
    .kind = MODULE_HTTP,
    .tables = tables,
    .hooks = &hooks,
    .configured = module_configured,
    .worker_start = module_worker_start,
    .worker_quit = module_worker_quit,
    .worker_abort = module_worker_abort,
    .worker_end = module_worker_end,
};
