/* ngx_http_proxy_protocol_vendor_module: what clouds say of the private endpoint that a client came through. */
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"
#include "shared/variables/proxy_vendor.h"

static bool get_vendor(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return variable_give_proxy_vendor(env, out, variable_proxy_header(env),
                                      (enum proxy_vendor) variable->data);
}

static const struct variable vendor_variables[] = {PROXY_VENDOR_VARIABLES(get_vendor),
                                                   {.name = {NULL, 0}}};
static const struct http_module vendor_hooks = {.variables = vendor_variables};

const struct module ngx_http_proxy_protocol_vendor_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_proxy_protocol_vendor_module",
    .kind = MODULE_HTTP,
    .hooks = &vendor_hooks,
};
