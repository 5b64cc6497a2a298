/* ngx_stream_upstream_hash_module: sessions with the same key go to the same peer. */
#include "server/module.h"
#include "upstream/methods/rows.h"

static const struct directive rows[] = {HASH_ROW(IN_STREAM_UPSTREAM), {0}};

const struct module ngx_stream_upstream_hash_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_upstream_hash_module",
    .kind = MODULE_STREAM,
    .table = {.rows = rows},
};
