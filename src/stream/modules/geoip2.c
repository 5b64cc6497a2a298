/* ngx_stream_geoip2_module: variables by databases of MaxMind's format. */
#include "server/module.h"
#include "shared/geo/geoip2.h"
#include "stream/session/session.h"

static const struct geo_clients clients = {.find = variable_session_client};

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
