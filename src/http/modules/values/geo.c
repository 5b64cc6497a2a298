/* ngx_http_geo_module, ngx_http_geoip2_module: variables whose values depend on an address. */
#include "http/variables/variables.h"
#include "server/module.h"
#include "shared/geo/geo.h"
#include "shared/geo/geoip2.h"

static const struct geo_clients clients = {.find = variable_client,
                                           .follow = variable_follow_client};

static bool geo_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    return geo_read(scope->conf, node, &clients);
}

static const struct directive geo_rows[] = {
    {"geo", IN_HTTP, FREE_FORM(geo_apply), ARGS(1, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "[$address] $variable",
     .doc = "Defines a variable by the client's address or by the address in $address. Its "
            "value is that of the smallest matching network or, with `ranges`, of the "
            "matching range. Other parameters of the block: `default`, `delete`, `proxy` "
            "and `proxy_recursive` (trusted proxies, whose X-Forwarded-For is used), "
            "`volatile`."},
    {0},
};

const struct module ngx_http_geo_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_geo_module",
    .kind = MODULE_HTTP,
    .table = {.rows = geo_rows, .contexts = IN_HTTP},
};

/* ---- geoip2: variables from MaxMind databases ---- */

static bool geoip2_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    return geoip2_read(scope->conf, node, settings, &clients);
}

static bool geoip2_proxy_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    return forwarded_trust_network(scope->conf, node,
                                   &((struct geoip2_settings *) settings)->forwarded);
}

#define S struct geoip2_settings
static const struct directive geoip2_rows[] = {
    GEOIP2_ROW(IN_HTTP, geoip2_apply),
    {"geoip2_proxy", IN_HTTP, CUSTOM_FIELD(S, forwarded.trusted, geoip2_proxy_apply), ARGS(1, 1),
     .repeat = REPEAT_APPEND, .syntax = "address | CIDR",
     .doc = "Trusted proxy, whose X-Forwarded-For is used for the client's address."},
    {"geoip2_proxy_recursive", IN_HTTP, FLAG(S, forwarded.is_recursive), .initial = "off",
     .doc = "Whether the last address that is not a trusted proxy is used instead of the "
            "last address."},
    {0},
};
#undef S

const struct module ngx_http_geoip2_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_geoip2_module",
    .kind = MODULE_HTTP,
    .table = {.rows = geoip2_rows, .contexts = IN_HTTP, .size = sizeof(struct geoip2_settings)},
};
