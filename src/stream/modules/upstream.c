/* ngx_stream_upstream_module: groups of servers in stream, and what workers do for them. */
#include "net/resolver/resolver.h"
#include "server/module.h"
#include "stream/session/hooks.h"
#include "upstream/upstream.h"

/* Groups without a resolver of their own use the one of the stream block. */
static bool hand_resolver_down(struct conf_scope *scope, void *settings)
{
    const struct stream_server *server = scope_stream_server(scope);

    upstream_set_resolver(upstream_set_of(scope->conf, &upstream_stream), server->resolver,
                          server->resolver_timeout_ms);
    return true;
}

static const struct directive_table resolver_table = {.contexts = IN_STREAM,
                                                      .finish = hand_resolver_down};

static const struct directive_table *const tables[] = {&upstream_stream_block_table,
                                                       &upstream_stream_group_table,
                                                       &resolver_table, NULL};

static bool configured(struct conf *conf, struct generation *generation)
{
    return generation->stream == NULL || upstream_finish(conf, &upstream_stream);
}

static bool worker_start(struct generation *generation)
{
    return upstream_worker_start(generation, &upstream_stream);
}

static void worker_quit(struct generation *generation)
{
    upstream_worker_quit(generation, &upstream_stream);
}

static void worker_abort(struct generation *generation)
{
    worker_quit(generation);
    resolver_close_all();
}

static void worker_end(struct generation *generation)
{
    upstream_worker_end(generation, &upstream_stream);
    resolver_close_all();
}

const struct module ngx_stream_upstream_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_upstream_module",
    .kind = MODULE_STREAM,
    .tables = tables,
    .configured = configured,
    .worker_start = worker_start,
    .worker_quit = worker_quit,
    .worker_abort = worker_abort,
    .worker_end = worker_end,
};
