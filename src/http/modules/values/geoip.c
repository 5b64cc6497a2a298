/* ngx_http_geoip_module: variables from legacy GeoIP databases, by the client's address. */
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"
#include "shared/geo/geoip.h"
#include "shared/geo/geoip_library.h"

static struct settings_key geoip_key;

static const struct geoip_library library = GEOIP_LIBRARY;
static const struct geo_clients clients = {.find = variable_client,
                                           .follow = variable_follow_client};

static bool geoip_get_value(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    const struct geoip_lookup lookup = {
        .settings = location_settings(variable_request(env)->location, &geoip_key),
        .library = &library,
        .clients = &clients,
        .env = env,
    };

    return geoip_give(&lookup, (enum geoip_value) variable->data, out);
}

static const struct variable geoip_variables[] = {
    GEOIP_VARIABLES(geoip_get_value),
    GEOIP_VARIABLE("geoip_region_country_code", geoip_get_value, GEOIP_REGION_COUNTRY,
                   "Code of the country in the region database."),
    GEOIP_VARIABLE("geoip_region_region", geoip_get_value, GEOIP_REGION_REGION,
                   "Region in the region database."),
    {.name = {NULL, 0}},
};

static bool proxy_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return forwarded_trust_network(scope->conf, node,
                                   &((struct geoip_settings *) settings)->forwarded);
}

#define S struct geoip_settings
static const struct directive geoip_rows[] = {
    GEOIP_ROWS(IN_HTTP),
    GEOIP_ROW("geoip_region", IN_HTTP, region, geoip_region_apply,
              "The database of regions (Tengine): `$geoip_region_country_code`, "
              "`$geoip_region_region`."),
    {"geoip_proxy", IN_HTTP, CUSTOM_FIELD(S, forwarded.trusted, proxy_apply), ARGS(1, 1),
     .repeat = REPEAT_APPEND, .syntax = "address | CIDR",
     .doc = "Trusted proxy, whose X-Forwarded-For is used for the client's address."},
    {"geoip_proxy_recursive", IN_HTTP, FLAG(S, forwarded.is_recursive), .initial = "off",
     .doc = "Whether the last address that is not a trusted proxy is used instead of the "
            "last address."},
    {0},
};
#undef S

static const struct http_module geoip_hooks = {.variables = geoip_variables};

const struct module ngx_http_geoip_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_geoip_module",
    .kind = MODULE_HTTP,
    .table = {.key = &geoip_key,
              .rows = geoip_rows,
              .contexts = IN_HTTP,
              .size = sizeof(struct geoip_settings)},
    .hooks = &geoip_hooks,
};
