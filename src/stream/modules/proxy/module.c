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
     .doc = "Address of the backend, or the name of a group of servers, to which sessions are "
            "proxied. If it contains variables, it is evaluated for each session."},
    UPSTREAM_BIND_ROW("proxy", IN_BOTH, S),
    {"proxy_bind_dynamic", IN_BOTH, FLAG(S, bind_dynamic), .initial = "off",
     .doc = "Accepted and ignored: the address of proxy_bind is always evaluated for each "
            "attempt."},
    {"proxy_connect_timeout", IN_BOTH, MSEC(S, connect_timeout_ms), .initial = "60s",
     .doc = "Timeout for connecting to a backend."},
    {"proxy_timeout", IN_BOTH, MSEC(S, timeout_ms), .initial = "10m",
     .doc = "Time after which a session ends if no data is transferred in either direction."},
    {"proxy_buffer_size", IN_BOTH, SIZE(S, buffer_size), .initial = "16k", .min = 1,
     .max = INT32_MAX,
     .doc = "Size of the buffer for reading, in each direction. It also limits the data that may "
            "wait to be written."},
    {"proxy_downstream_buffer", IN_BOTH, SIZE(S, buffer_size), .min = 1, .max = INT32_MAX,
     .replaced_by = "proxy_buffer_size", .doc = "Old name of proxy_buffer_size."},
    {"proxy_upstream_buffer", IN_BOTH, SIZE(S, buffer_size), .min = 1, .max = INT32_MAX,
     .replaced_by = "proxy_buffer_size", .doc = "Old name of proxy_buffer_size."},
    {"proxy_upload_rate", IN_BOTH, TEMPLATE_SIZE(S, upload_rate), .initial = "0",
     .doc = "Limits the rate of reading from a client, in bytes per second. 0 disables the limit."},
    {"proxy_download_rate", IN_BOTH, TEMPLATE_SIZE(S, download_rate), .initial = "0",
     .doc = "Limits the rate of reading from a backend, in bytes per second. 0 disables the "
            "limit."},
    {"proxy_next_upstream", IN_BOTH, FLAG(S, next_upstream), .initial = "on",
     .doc = "Whether another peer is tried when a connection cannot be established."},
    UPSTREAM_TRIES_ROWS("proxy", IN_BOTH, S),
    UPSTREAM_SOCKET_BUFFER_ROWS("proxy", IN_BOTH, S),
    {"proxy_half_close", IN_BOTH, FLAG(S, half_close), .initial = "off",
     .doc = "Whether each direction of a TCP connection can be closed independently: one side "
            "may close its direction while the other continues to send."},
    {"proxy_session_drop", IN_BOTH, FLAG(S, session_drop), .initial = "off",
     .doc = "Whether a session ends, when the next data arrives from either side, if its "
            "backend has been removed from the group or health_check has marked it unhealthy."},
    {"proxy_protocol", IN_BOTH, ENUM(S, proxy_protocol, protocol_words), .initial = "off",
     .doc = "Starts each connection to a backend with a PROXY protocol header, of version 1 or 2."},
    {"proxy_requests", IN_BOTH, NUMBER(S, requests), .initial = "0",
     .doc = "Number of client datagrams in a session. The next datagram starts a new session. 0: "
            "no limit."},
    {"proxy_responses", IN_BOTH, NUMBER(S, responses), .max = INT32_MAX,
     .doc = "Number of datagrams expected from the backend in response to each client datagram. "
            "The session ends when they have arrived. Without this directive, the number is not "
            "limited and the session ends after proxy_timeout."},
    {"proxy_ssl", IN_BOTH, FLAG(S, ssl), .initial = "off",
     .doc = "Whether connections to backends use TLS."},
    {"proxy_ssl_alpn", IN_BOTH, TEMPLATES(S, ssl_alpn), .syntax = "protocol ...",
     .doc = "Protocols that are offered to backends by ALPN (RFC 7301)."},
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
