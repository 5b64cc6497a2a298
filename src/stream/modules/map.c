/* ngx_stream_map_module: variables whose values are found by the value of another text. */
#include "server/module.h"
#include "shared/variables/map.h"

static const struct directive map_rows[] = {VALUE_MAP_ROWS(IN_STREAM), {0}};

const struct module ngx_stream_map_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_map_module",
    .kind = MODULE_STREAM,
    .table = {.rows = map_rows, .contexts = IN_STREAM, .size = sizeof(struct value_map_settings)},
};
