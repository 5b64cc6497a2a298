/* ngx_stream_proxy_module: the directives. */
#include "server/module.h"
#include "shared/upstream/rows.h"
#include "stream/modules/proxy/proxy.h"
#include "stream/session/hooks.h"

struct settings_key proxy_key;

static bool pass_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *arg)
{
    struct proxy_settings *settings = arg;
    struct stream_server *server = scope_stream_server(scope);
    struct str address = node->args[1];

    server->content = proxy_pass_session;
    if (template_variable_count(address) != 0) {
        settings->target = template_compile(scope->conf, node, address);
        return settings->target != NULL;
    }
    settings->group = upstream_use(scope->conf, &upstream_stream, node, address, 0);
    return settings->group != NULL;
}

static bool stream_proxy_finish(struct conf_scope *scope, void *arg)
{
    struct proxy_settings *settings = arg;
    bool has_pass = settings->group != NULL || settings->target != NULL;

    if (scope->context == IN_STREAM && !conf_is_set(scope, &proxy_key, "proxy_responses")) {
        settings->responses = -1; /* of servers that do not set it, either */
    }
    settings->tls.is_needed = settings->ssl && has_pass;
    if (has_pass) {
        scope_stream_server(scope)->group = settings->group;
        scope_stream_server(scope)->tls = settings->tls.is_needed ? &settings->tls : NULL;
    }
    return tls_client_finish(scope, &settings->tls, "proxy_");
}

static const struct directive_word protocol_words[] = {{"off", PROXY_PROTOCOL_OFF},
                                                       {"on", PROXY_PROTOCOL_V1},
                                                       {"v2", PROXY_PROTOCOL_V2},
                                                       {NULL, 0}};

#define S struct proxy_settings
#define IN_BOTH IN_STREAM | IN_STREAM_SERVER
static const struct directive rows[] = {
    {"proxy_pass", IN_STREAM_SERVER, CUSTOM(pass_apply), ARGS(1, 1), .syntax = "address",
     .doc =
         "The backend, or the group of them, that sessions are passed on to. With variables it is "
         "found for each session."},
    UPSTREAM_BIND_ROW("proxy", IN_BOTH, S),
    {"proxy_bind_dynamic", IN_BOTH, FLAG(S, bind_dynamic), .initial = "off",
     .doc = "The address of proxy_bind is found for each attempt, which it is in any case."},
    {"proxy_connect_timeout", IN_BOTH, MSEC(S, connect_timeout_ms), .initial = "60s",
     .doc = "Longest time for a connection to a backend to be made."},
    {"proxy_timeout", IN_BOTH, MSEC(S, timeout_ms), .initial = "10m",
     .doc = "Longest time without a byte either way."},
    {"proxy_buffer_size", IN_BOTH, SIZE(S, buffer_size), .initial = "16k", .min = 1,
     .max = INT32_MAX,
     .doc = "Bytes that are read at a time, and that may wait for the other side."},
    {"proxy_downstream_buffer", IN_BOTH, SIZE(S, buffer_size), .min = 1, .max = INT32_MAX,
     .replaced_by = "proxy_buffer_size", .doc = "Old name."},
    {"proxy_upstream_buffer", IN_BOTH, SIZE(S, buffer_size), .min = 1, .max = INT32_MAX,
     .replaced_by = "proxy_buffer_size", .doc = "Old name."},
    {"proxy_upload_rate", IN_BOTH, TEMPLATE_SIZE(S, upload_rate), .initial = "0",
     .doc = "Bytes per second that are read from a client; 0 is no limit."},
    {"proxy_download_rate", IN_BOTH, TEMPLATE_SIZE(S, download_rate), .initial = "0",
     .doc = "Bytes per second that are read from a backend; 0 is no limit."},
    {"proxy_next_upstream", IN_BOTH, FLAG(S, next_upstream), .initial = "on",
     .doc = "Is another peer tried when a connection cannot be made?"},
    UPSTREAM_TRIES_ROWS("proxy", IN_BOTH, S),
    UPSTREAM_SOCKET_BUFFER_ROWS("proxy", IN_BOTH, S),
    {"proxy_half_close", IN_BOTH, FLAG(S, half_close), .initial = "off",
     .doc = "One side may close while the other continues."},
    {"proxy_session_drop", IN_BOTH, FLAG(S, session_drop), .initial = "off",
     .doc =
         "Ends sessions, with the next byte either way, whose backend is none of its group any more, or unhealthy as "
         "health_check says."},
    {"proxy_protocol", IN_BOTH, ENUM(S, proxy_protocol, protocol_words), .initial = "off",
     .doc = "Begins each connection with a header of the PROXY protocol, of version 1 or 2."},
    {"proxy_requests", IN_BOTH, NUMBER(S, requests), .initial = "0",
     .doc = "Datagrams of a client that are one session; 0 is no limit."},
    {"proxy_responses", IN_BOTH, NUMBER(S, responses), .max = INT32_MAX,
     .doc = "Datagrams that the backend answers one of the client with."},
    {"proxy_ssl", IN_BOTH, FLAG(S, ssl), .initial = "off", .doc = "Speaks TLS with backends."},
    {"proxy_ssl_alpn", IN_BOTH, TEMPLATES(S, ssl_alpn), .syntax = "protocol ...",
     .doc = "Protocols that are offered by ALPN (RFC 7301)."},
    TLS_CLIENT_ROWS("proxy", IN_BOTH, S),
    {0},
};
#undef S

const struct module ngx_stream_proxy_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_proxy_module",
    .kind = MODULE_STREAM,
    .table = {.key = &proxy_key,
              .rows = rows,
              .contexts = IN_BOTH,
              .size = sizeof(struct proxy_settings),
              .finish = stream_proxy_finish},
};
