/* ngx_stream_split_clients_module: a variable that has one of several values, each for a part of all clients. */
#include "server/module.h"
#include "shared/variables/split_clients.h"

static const struct directive split_clients_rows[] = {SPLIT_CLIENTS_ROW(IN_STREAM), {0}};

const struct module ngx_stream_split_clients_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_split_clients_module",
    .kind = MODULE_STREAM,
    .table = {.rows = split_clients_rows, .contexts = IN_STREAM},
};
