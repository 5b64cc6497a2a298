/* ngx_http_v2_module: the directives of HTTP/2 and $http2. */
#include "http/routing/hooks.h"
#include "http/v2/v2.h"
#include "http/variables/variables.h"
#include "server/module.h"

static bool check_index_size(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    const struct v2_settings *v2 = settings;

    if ((v2->index_size & (v2->index_size - 1)) != 0) {
        return conf_error(scope->conf, node, "must be a power of two");
    }
    return true;
}

static bool check_preread_size(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    const struct v2_settings *v2 = settings;

    if (v2->preread_size > WINDOW_MAX) {
        return conf_error(scope->conf, node, "the maximum body preread buffer size is %d",
                          WINDOW_MAX);
    }
    return true;
}

#define V struct v2_settings
static const struct directive server_rows[] = {
    {"http2", IN_HTTP | IN_SERVER, FLAG(V, is_on), .initial = "off",
     .doc = "Enables HTTP/2: over TLS if the client negotiates it with ALPN, and without "
            "TLS if the client sends the connection preface. A request to a server with "
            "`off` gets 421 if it arrives on an HTTP/2 connection of another server at the "
            "same address."},
    {"http2_max_concurrent_streams", IN_HTTP | IN_SERVER, NUMBER(V, max_streams), .initial = "128",
     .max = UINT32_MAX, .doc = "Maximum number of concurrent requests in a connection."},
    {"http2_body_preread_size", IN_HTTP | IN_SERVER, SIZE(V, preread_size), .initial = "64k",
     .apply = check_preread_size,
     .doc = "Number of bytes of a request body that a client may send before the body is "
            "read."},
    {"http2_recv_buffer_size", IN_HTTP, SIZE(V, recv_buffer_size), .initial = "256k",
     .doc = "Maximum number of bytes that are read from a connection at a time; values "
            "above 64k have the effect of 64k."},
    {"http2_pool_size", IN_HTTP | IN_SERVER, SIZE(V, pool_size), .initial = "4k",
     .doc = "Accepted and ignored: the memory of a connection grows as needed."},
    {"http2_streams_index_size", IN_HTTP | IN_SERVER, NUMBER(V, index_size), .initial = "32",
     .min = 1, .max = 65536, .apply = check_index_size,
     .doc = "Number of buckets in a connection's stream table; must be a power of two."},
    {"http2_recv_timeout", IN_HTTP | IN_SERVER, OBSOLETE, ARGS(1, 1), .syntax = "time",
     .replaced_by = "client_header_timeout",
     .doc = "Obsolete since nginx 1.19.7: client_header_timeout is used."},
    {"http2_idle_timeout", IN_HTTP | IN_SERVER, OBSOLETE, ARGS(1, 1), .syntax = "time",
     .replaced_by = "keepalive_timeout",
     .doc = "Obsolete since nginx 1.19.7: keepalive_timeout is used."},
    {"http2_max_requests", IN_HTTP | IN_SERVER, OBSOLETE, ARGS(1, 1), .syntax = "number",
     .replaced_by = "keepalive_requests",
     .doc = "Obsolete since nginx 1.19.7: keepalive_requests is used."},
    {"http2_max_field_size", IN_HTTP | IN_SERVER, OBSOLETE, ARGS(1, 1), .syntax = "size",
     .replaced_by = "large_client_header_buffers",
     .doc = "Obsolete since nginx 1.19.7: large_client_header_buffers is used."},
    {"http2_max_header_size", IN_HTTP | IN_SERVER, OBSOLETE, ARGS(1, 1), .syntax = "size",
     .replaced_by = "large_client_header_buffers",
     .doc = "Obsolete since nginx 1.19.7: large_client_header_buffers is used."},
    {"http2_max_concurrent_pushes", IN_HTTP | IN_SERVER, OBSOLETE, ARGS(1, 1), .syntax = "number",
     .doc = "Obsolete since nginx 1.25.1: server push is not supported."},
    {0},
};
#undef V

static const struct directive_table v2_server_table = {.key = &v2_server_key,
                                                       .rows = server_rows,
                                                       .contexts = IN_HTTP | IN_SERVER,
                                                       .size = sizeof(struct v2_settings)};

#define V struct v2_position
static const struct directive location_rows[] = {
    {"http2_chunk_size", IN_HTTP_ALL, SIZE(V, chunk_size), .initial = "8k", .min = 1,
     .max = 1 << 30, .doc = "Maximum size of a DATA frame."},
    {"http2_push", IN_HTTP_ALL, OBSOLETE, ARGS(1, 1), .syntax = "uri | off",
     .doc = "Obsolete since nginx 1.25.1: server push is not supported."},
    {"http2_push_preload", IN_HTTP_ALL, OBSOLETE, ARGS(1, 1), .syntax = "on | off",
     .doc = "Obsolete since nginx 1.25.1: server push is not supported."},
    {0},
};
#undef V

static const struct directive_table v2_location_table = {.key = &v2_location_key,
                                                         .rows = location_rows,
                                                         .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                         .size = sizeof(struct v2_position)};

static const struct directive_table *const v2_tables[] = {&v2_server_table, &v2_location_table,
                                                          NULL};

/* "h2" with TLS, "h2c" without; empty for the other versions. */
static bool get_http2(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct request *request = variable_request(env);

    if (request->main->head.version != HTTP_2) {
        return variable_give(out, STR(""));
    }
    return variable_give(out, request_is_encrypted(request) ? STR("h2") : STR("h2c"));
}

static const struct variable v2_variables[] = {
    {.name = STR_INIT("http2"),
     .doc = "`h2` over TLS, `h2c` without TLS, otherwise empty.",
     .get = get_http2},
    {.name = {NULL, 0}},
};

static const struct http_module v2_hooks = {.variables = v2_variables, .protocol = &v2_protocol};

const struct module ngx_http_v2_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_v2_module",
    .kind = MODULE_HTTP,
    .tables = v2_tables,
    .hooks = &v2_hooks,
};
