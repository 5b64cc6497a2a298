/* ngx_stream_keyval_module: variables whose values requests change while the service runs. */
#include "server/generation.h"
#include "server/module.h"
#include "shared/keyval/keyval.h"

static bool apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                  void *settings)
{
    return keyval_read(scope->conf, node, &keyval_stream);
}

static bool stream_keyval_zone_apply(struct conf_scope *scope, const struct directive *row,
                                     struct conf_node *node, void *settings)
{
    return keyval_zone_read(scope->conf, node, &keyval_stream);
}

static bool stream_keyval_worker_start(struct generation *generation)
{
    keyval_worker_start(&generation->conf, &keyval_stream);
    return true;
}

static void stream_keyval_worker_end(struct generation *generation)
{
    keyval_worker_end(&generation->conf, &keyval_stream);
}

static const struct directive rows[] = {KEYVAL_ROWS(IN_STREAM, apply, stream_keyval_zone_apply),
                                        {0}};

const struct module ngx_stream_keyval_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_keyval_module",
    .kind = MODULE_STREAM,
    .table = {.rows = rows, .contexts = IN_STREAM},
    .worker_start = stream_keyval_worker_start,
    .worker_end = stream_keyval_worker_end,
};
