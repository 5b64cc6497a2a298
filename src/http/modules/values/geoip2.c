/* ngx_http_geoip2_module: variables by databases of MaxMind's format. */
#include "http/variables/variables.h"
#include "server/module.h"
#include "shared/geo/geoip2.h"

static const struct geo_clients clients = {.find = variable_client,
                                           .follow = variable_follow_client};

static bool geoip2_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    return geoip2_read(scope->conf, node, settings, &clients);
}

static bool proxy_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return forwarded_trust_network(scope->conf, node,
                                   &((struct geoip2_settings *) settings)->forwarded);
}

#define S struct geoip2_settings
static const struct directive geoip2_rows[] = {
    GEOIP2_ROW(IN_HTTP, geoip2_apply),
    {"geoip2_proxy", IN_HTTP, CUSTOM_FIELD(S, forwarded.trusted, proxy_apply), ARGS(1, 1),
     .repeat = REPEAT_APPEND, .syntax = "address | CIDR",
     .doc = "A trusted proxy, whose X-Forwarded-For is used for the client's address."},
    {"geoip2_proxy_recursive", IN_HTTP, FLAG(S, forwarded.is_recursive), .initial = "off",
     .doc =
         "Takes the last address that is not a trusted proxy's itself, instead of the last one."},
    {0},
};
#undef S

const struct module ngx_http_geoip2_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_geoip2_module",
    .kind = MODULE_HTTP,
    .table = {.rows = geoip2_rows, .contexts = IN_HTTP, .size = sizeof(struct geoip2_settings)},
};
