/* ngx_http_upstream_hash_module: requests with the same key go to the same peer. */
#include "server/module.h"
#include "upstream/methods/rows.h"

static const struct directive rows[] = {HASH_ROW(IN_UPSTREAM), {0}};

const struct module ngx_http_upstream_hash_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_hash_module",
    .kind = MODULE_HTTP,
    .table = {.rows = rows},
};
