/* ngx_stream_split_clients_module: a variable that has one of several values, each for a part of all clients. */
#include "server/module.h"
#include "shared/variables/split_clients.h"

static const struct directive split_clients_rows[] = {SPLIT_CLIENTS_ROW(IN_STREAM), {0}};

static const struct directive_table split_clients_table = {.rows = split_clients_rows,
                                                           .contexts = IN_STREAM};
static const struct directive_table *const split_clients_tables[] = {&split_clients_table, NULL};

const struct module ngx_stream_split_clients_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_split_clients_module",
    .kind = MODULE_STREAM,
    .tables = split_clients_tables,
};
