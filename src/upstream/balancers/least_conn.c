/* ngx_http_upstream_least_conn_module: the peer with the fewest requests in progress. */
#include "server/module.h"
#include "upstream/methods/rows.h"

static const struct directive rows[] = {LEAST_CONN_ROW(IN_UPSTREAM), {0}};

const struct module ngx_http_upstream_least_conn_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_least_conn_module",
    .kind = MODULE_HTTP,
    .table = {.rows = rows},
};
