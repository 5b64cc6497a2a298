/* ngx_stream_geo_module, ngx_stream_geoip2_module: variables whose values are found by an address.
 */
#include "server/module.h"
#include "shared/geo/geo.h"
#include "shared/geo/geoip2.h"
#include "stream/session/session.h"

static const struct geo_clients clients = {.find = variable_session_client};

static bool geo_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    return geo_read(scope->conf, node, &clients);
}

static const struct directive geo_rows[] = {
    {"geo", IN_STREAM, FREE_FORM(geo_apply), ARGS(1, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "[$address] $variable",
     .doc = "Defines a variable whose value depends on the client's address, or on the address "
            "in `$address`: the value of the smallest network that contains it, or with `ranges` "
            "of the range. The block may also contain `default`, `delete` and `volatile`."},
    {0},
};

const struct module ngx_stream_geo_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_geo_module",
    .kind = MODULE_STREAM,
    .table = {.rows = geo_rows, .contexts = IN_STREAM},
};

/* ---- geoip2: variables from databases in MaxMind's format ---- */

static bool geoip2_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    return geoip2_read(scope->conf, node, settings, &clients);
}

static const struct directive geoip2_rows[] = {GEOIP2_ROW(IN_STREAM, geoip2_apply), {0}};

const struct module ngx_stream_geoip2_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_geoip2_module",
    .kind = MODULE_STREAM,
    .table = {.rows = geoip2_rows, .contexts = IN_STREAM, .size = sizeof(struct geoip2_settings)},
};
