/* ngx_http_keyval_module: variables whose values requests change while the service runs. */
#include "server/generation.h"
#include "server/module.h"
#include "shared/keyval/keyval.h"

static bool apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                  void *settings)
{
    return keyval_read(scope->conf, node, &keyval_http);
}

static bool keyval_zone_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    return keyval_zone_read(scope->conf, node, &keyval_http);
}

static bool worker_start(struct generation *generation)
{
    keyval_worker_start(&generation->conf, &keyval_http);
    return true;
}

static void worker_end(struct generation *generation)
{
    keyval_worker_end(&generation->conf, &keyval_http);
}

static const struct directive rows[] = {KEYVAL_ROWS(IN_HTTP, apply, keyval_zone_apply), {0}};

const struct module ngx_http_keyval_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_keyval_module",
    .kind = MODULE_HTTP,
    .table = {.rows = rows, .contexts = IN_HTTP},
    .worker_start = worker_start,
    .worker_end = worker_end,
};
