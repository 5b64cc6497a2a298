/* ngx_http_map_module: variables whose values are found by the value of another text. */
#include "server/module.h"
#include "shared/variables/map.h"

static const struct directive map_rows[] = {VALUE_MAP_ROWS(IN_HTTP), {0}};

static const struct directive_table map_table = {.rows = map_rows,
                                                 .contexts = IN_HTTP,
                                                 .size = sizeof(struct value_map_settings)};
static const struct directive_table *const map_tables[] = {&map_table, NULL};

const struct module ngx_http_map_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_map_module",
    .kind = MODULE_HTTP,
    .tables = map_tables,
};
