/* ngx_conf_module: include. The reader has put the files in place before anything is applied. */
#include "server/module.h"

static bool apply_include(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    return conf_error(scope->conf, node, "\"include\" directive is not allowed here");
}

static const struct directive rows[] = {
    {"include", IN_ANY, CUSTOM(apply_include), ARGS(1, 1), .repeat = REPEAT_APPEND,
     .syntax = "<file> | <mask>",
     .doc = "Reads another file, or all files that match, sorted by name, as if they stood here."},
    {0},
};

const struct module ngx_conf_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_conf_module",
    .kind = MODULE_CORE,
    .table = {.rows = rows, .contexts = IN_ANY},
};
