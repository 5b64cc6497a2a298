/* ngx_stream_realip_module: the client's address, as a trusted proxy in front of this server
 * reports it by the PROXY protocol. */
#include "server/module.h"
#include "shared/access/forwarded.h"
#include "shared/variables/give.h"
#include "shared/variables/proxy_vendor.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

struct realip_settings {
    struct forwarded forwarded; /* trusted proxies */
};

static struct settings_key realip_key;

static enum session_step find_client(struct session *session)
{
    const struct realip_settings *settings = stream_settings(session->server, &realip_key);
    const struct proxy_header *proxy = session->proxy;
    struct addr peer;

    session_peer(session, &peer);
    if (proxy != NULL && proxy->source.len != 0 &&
        forwarded_is_trusted(&settings->forwarded, &peer)) {
        session_set_client(session, &proxy->source);
    }
    return SESSION_NEXT;
}

static bool trust_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return forwarded_trust(scope->conf, node, &((struct realip_settings *) settings)->forwarded);
}

static const struct directive realip_rows[] = {
    {"set_real_ip_from", IN_STREAM | IN_STREAM_SERVER,
     CUSTOM_FIELD(struct realip_settings, forwarded.trusted, trust_apply), ARGS(1, 1),
     .repeat = REPEAT_APPEND, .syntax = "address | CIDR | hostname | unix:",
     .doc = "Address of a trusted proxy, whose PROXY protocol header sets the client's address."},
    {0},
};

/* ---- variables: the address of the connection itself ---- */

static bool get_remote_addr(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    struct addr peer;

    session_peer(variable_session(env), &peer);
    if (peer.len == 0 || peer.any.sa_family == AF_UNIX) {
        return variable_give(out, STR("unix:"));
    }
    return variable_give_address(env, out, &peer);
}

static bool get_remote_port(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    struct addr peer;

    session_peer(variable_session(env), &peer);
    return variable_give_port(env, out, &peer);
}

static const struct variable realip_variables[] = {
    {.name = STR_INIT("realip_remote_addr"),
     .doc = "Original address of the client, before it was changed.",
     .get = get_remote_addr},
    {.name = STR_INIT("realip_remote_port"),
     .doc = "Original port of the client, before it was changed.",
     .get = get_remote_port},
    {.name = {NULL, 0}},
};

static const struct session_hook session_hooks[] = {
    {.phase = STREAM_POST_ACCEPT,
     .run = find_client,
     .when = SETTING(realip_key, struct realip_settings, forwarded.trusted.count)},
    {.run = NULL},
};
static const struct stream_module realip_hooks = {.variables = realip_variables,
                                                  .hooks = session_hooks};

const struct module ngx_stream_realip_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_realip_module",
    .kind = MODULE_STREAM,
    .table = {.key = &realip_key,
              .rows = realip_rows,
              .contexts = IN_STREAM | IN_STREAM_SERVER,
              .size = sizeof(struct realip_settings)},
    .hooks = &realip_hooks,
};

/* ---- ngx_stream_proxy_protocol_vendor_module: private endpoints of cloud providers, from the
 * PROXY header ---- */

static bool get_vendor(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return variable_give_proxy_vendor(env, out, variable_session(env)->proxy,
                                      (enum proxy_vendor) variable->data);
}

static const struct variable vendor_variables[] = {PROXY_VENDOR_VARIABLES(get_vendor),
                                                   {.name = {NULL, 0}}};
static const struct stream_module vendor_hooks = {.variables = vendor_variables};

const struct module ngx_stream_proxy_protocol_vendor_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_proxy_protocol_vendor_module",
    .kind = MODULE_STREAM,
    .hooks = &vendor_hooks,
};
