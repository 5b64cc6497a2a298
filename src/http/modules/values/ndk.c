/* ndk_http_module: a name that others ask for. What nginx's development kit gives to modules, src/http/routing/hooks.h has
 * (struct value_function, struct rewrite_step); upstream_list is set_misc's. */
#include "http/routing/hooks.h"
#include "server/module.h"

const struct module ndk_http_module = {
    .magic = MODULE_MAGIC,
    .name = "ndk_http_module",
    .kind = MODULE_HTTP,
};
