/* ngx_stream_num_map_module: variables whose values are found by the value of a number. */
#include "server/module.h"
#include "shared/variables/num_map.h"

static const struct directive num_map_rows[] = {NUM_MAP_ROW(IN_STREAM), {0}};

const struct module ngx_stream_num_map_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_num_map_module",
    .kind = MODULE_STREAM,
    .table = {.rows = num_map_rows, .contexts = IN_STREAM},
};
