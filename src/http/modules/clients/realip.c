/* ngx_http_realip_module: takes the client's address from a trusted proxy in front of this
 * server. */
#include "http/client/connection.h"
#include "http/client/forwarded.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "http/variables/variables.h"
#include "server/module.h"
#include "shared/variables/proxy_vendor.h"

/* Where the address is. */
enum source {
    SOURCE_FIELD,     /* the first field with the configured name */
    SOURCE_FORWARDED, /* all X-Forwarded-For fields together; the last address is the nearest */
    SOURCE_PROXY_PROTOCOL, /* the PROXY protocol header of the connection */
};

struct realip_settings {
    struct forwarded forwarded; /* trusted proxies, and `recursive` */
    struct str header;
    enum source source; /* derived from `header` */
};

static struct settings_key realip_key;

TYPED_SETTINGS(realip_settings_at, struct realip_settings, realip_key, struct http_location)

/* ---- the client's address ---- */

static void follow_field(const struct realip_settings *settings, const struct fields *fields,
                         struct addr *client)
{
    const struct field *field = fields_find(fields, settings->header);

    if (field != NULL) {
        forwarded_follow(&settings->forwarded, field->value, client);
    }
}

static void follow_proxy(const struct realip_settings *settings,
                         const struct http_connection *connection, struct addr *client)
{
    const struct proxy_header *proxy =
        connection->details == NULL ? NULL : connection->details->proxy;

    if (proxy != NULL && proxy->source.len != 0 &&
        forwarded_is_trusted(&settings->forwarded, client)) {
        *client = proxy->source;
    }
}

/* Runs with the settings of the server, first of all; then with those of the location, unless an
 * address was found. */
static enum handler_result find_client(struct request *request)
{
    const struct realip_settings *settings = realip_settings_at(request->location);
    struct addr peer = {.len = 0};

    if (request->main->client != NULL || settings->forwarded.trusted.count == 0) {
        return HANDLER_NEXT;
    }
    connection_peer(request->connection, &peer);
    struct addr client = peer;
    switch (settings->source) {
    case SOURCE_FIELD:
        follow_field(settings, &request->headers, &client);
        break;
    case SOURCE_FORWARDED:
        forwarded_follow_all(&settings->forwarded, &request->headers, &client);
        break;
    case SOURCE_PROXY_PROTOCOL:
        follow_proxy(settings, request->connection, &client);
        break;
    }
    if (!addr_equal(&client, &peer)) {
        request_set_client(request, &client);
    }
    return HANDLER_NEXT;
}

/* ---- directives ---- */

static bool set_real_ip_from_apply(struct conf_scope *scope, const struct directive *row,
                                   struct conf_node *node, void *settings)
{
    struct realip_settings *realip = settings;

    return forwarded_trust(scope->conf, node, &realip->forwarded);
}

static bool realip_finish(struct conf_scope *scope, void *arg)
{
    struct realip_settings *settings = arg;

    settings->source = str_equal_nocase(settings->header, STR("X-Forwarded-For")) ? SOURCE_FORWARDED
                       : str_is(settings->header, "proxy_protocol") ? SOURCE_PROXY_PROTOCOL
                                                                    : SOURCE_FIELD;
    return true;
}

#define S struct realip_settings
static const struct directive realip_rows[] = {
    {"set_real_ip_from", IN_HTTP_ALL, CUSTOM_FIELD(S, forwarded.trusted, set_real_ip_from_apply),
     ARGS(1, 1), .repeat = REPEAT_APPEND, .syntax = "address | CIDR | hostname | unix:",
     .doc = "Trusted proxy, whose information about the client's address is used."},
    {"real_ip_header", IN_HTTP_ALL, STRING(S, header), .initial = "X-Real-IP",
     .syntax = "field | X-Real-IP | X-Forwarded-For | proxy_protocol",
     .doc = "Source of the client's address in requests of trusted proxies: the last "
            "address in this header field, or the PROXY protocol header."},
    {"real_ip_recursive", IN_HTTP_ALL, FLAG(S, forwarded.is_recursive), .initial = "off",
     .doc = "Whether the last address that is not trusted is used instead of the last "
            "address."},
    {0},
};
#undef S

/* ---- variables: the peer of the connection ---- */

static bool get_remote_addr(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    return variable_give(out, connection_address(variable_request(env)->connection));
}

/* Unix sockets have no port: the value is empty, but found. */
static bool get_remote_port(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    struct addr peer;

    connection_peer(variable_request(env)->connection, &peer);
    uint16_t port = addr_port(&peer);
    return port == 0 ? variable_give(out, STR("")) : variable_give_number(env, out, port);
}

static const struct variable realip_variables[] = {
    {.name = STR_INIT("realip_remote_addr"),
     .doc = "Address of the client before `real_ip_header` changed it.",
     .get = get_remote_addr},
    {.name = STR_INIT("realip_remote_port"),
     .doc = "Port of the client before `real_ip_header` changed it.",
     .get = get_remote_port},
    {.name = {NULL, 0}},
};

static const struct phase_hook realip_phases[] = {
    {.phase = PHASE_POST_READ,
     .name = "realip",
     .run = find_client,
     .when = SETTING(realip_key, struct realip_settings, forwarded.trusted.count)},
    {.phase = PHASE_PREACCESS,
     .name = "realip",
     .run = find_client,
     .when = SETTING(realip_key, struct realip_settings, forwarded.trusted.count)},
    {.run = NULL},
};

static const struct http_module realip_hooks = {
    .variables = realip_variables,
    .phases = realip_phases,
};

const struct module ngx_http_realip_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_realip_module",
    .kind = MODULE_HTTP,
    .table = {.key = &realip_key,
              .rows = realip_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct realip_settings),
              .finish = realip_finish},
    .hooks = &realip_hooks,
};

/* ---- ngx_http_proxy_protocol_vendor_module: private endpoints of clouds, from the PROXY protocol
 * header ---- */

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
