/* ngx_stream_upstream_random_module: a peer at random, or the better one of two. */
#include "server/module.h"
#include "upstream/methods/rows.h"

static const struct directive rows[] =
    {RANDOM_ROW(IN_STREAM_UPSTREAM,
                "least_time=connect | least_time=first_byte | least_time=last_byte"),
     {0}};

const struct module ngx_stream_upstream_random_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_upstream_random_module",
    .kind = MODULE_STREAM,
    .table = {.rows = rows},
};
