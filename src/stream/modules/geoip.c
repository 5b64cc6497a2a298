/* ngx_stream_geoip_module: variables by the client's address, from GeoIP databases in the legacy
 * format. */
#include "server/module.h"
#include "shared/geo/geoip.h"
#include "shared/geo/geoip_library.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

static struct settings_key geoip_key;

static const struct geoip_library library = GEOIP_LIBRARY;
static const struct geo_clients clients = {.find = variable_session_client};

static bool stream_geoip_get_value(struct variable_env *env, const struct variable *variable,
                                   struct str *out)
{
    const struct geoip_lookup lookup = {
        .settings = stream_settings(variable_session(env)->server, &geoip_key),
        .library = &library,
        .clients = &clients,
        .env = env,
    };

    return geoip_give(&lookup, (enum geoip_value) variable->data, out);
}

static const struct variable geoip_variables[] = {GEOIP_VARIABLES(stream_geoip_get_value),
                                                  {.name = {NULL, 0}}};

static const struct directive geoip_rows[] = {GEOIP_ROWS(IN_STREAM), {0}};

static const struct stream_module geoip_hooks = {.variables = geoip_variables};

const struct module ngx_stream_geoip_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_geoip_module",
    .kind = MODULE_STREAM,
    .table = {.key = &geoip_key,
              .rows = geoip_rows,
              .contexts = IN_STREAM,
              .size = sizeof(struct geoip_settings)},
    .hooks = &geoip_hooks,
};
