/* ngx_http_upstream_least_time_module: the peer that answers fastest and has the fewest requests. */
#include "server/module.h"
#include "upstream/methods/rows.h"

static const struct directive rows[] =
    {LEAST_TIME_ROW(
         IN_UPSTREAM, "header | last_byte",
         "The server with the least average time of answers, times its requests in progress, for "
         "its weight. `header` counts the time until an answer begins, `last_byte` until it is "
         "whole"),
     {0}};

const struct module ngx_http_upstream_least_time_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_least_time_module",
    .kind = MODULE_HTTP,
    .table = {.rows = rows},
};
