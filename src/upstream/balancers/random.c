/* ngx_http_upstream_random_module: a peer at random, or the better one of two. */
#include "server/module.h"
#include "upstream/methods/rows.h"

static const struct directive rows[] = {RANDOM_ROW(IN_UPSTREAM,
                                                   "least_time=header | least_time=last_byte"),
                                        {0}};

const struct module ngx_http_upstream_random_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_random_module",
    .kind = MODULE_HTTP,
    .table = {.rows = rows},
};
