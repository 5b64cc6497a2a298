/* ngx_stream_upstream_least_time_module: the peer that answers fastest and has the fewest sessions. */
#include "server/module.h"
#include "upstream/methods/rows.h"

static const struct directive rows[] =
    {LEAST_TIME_ROW(
         IN_STREAM_UPSTREAM, "connect | first_byte | last_byte",
         "The server with the least average time, times its sessions in progress, for its "
         "weight. `connect` counts the time until it is connected, `first_byte` until its "
         "first byte came, `last_byte` until the session ends"),
     {0}};

const struct module ngx_stream_upstream_least_time_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_upstream_least_time_module",
    .kind = MODULE_STREAM,
    .table = {.rows = rows},
};
