/* ngx_http_spdy_module: SPDY was replaced by HTTP/2; its directives are ignored, with a warning
 * that names the current ones. */
#include "http/routing/hooks.h"
#include "server/module.h"

#define SPDY(directive, where, words, instead)                                                     \
    {                                                                                              \
        directive, where, OBSOLETE, ARGS(1, 1),                                                    \
            .syntax = words, .replaced_by = instead,                                               \
            .doc = "Obsolete, because HTTP/2 replaced SPDY: " instead " is used."                  \
    }

static const struct directive spdy_rows[] = {
    SPDY("spdy_version", IN_HTTP | IN_SERVER, "2 | 3", "http2"),
    SPDY("spdy_headers_comp", IN_HTTP | IN_SERVER, "level", "http2"),
    SPDY("spdy_flow_control", IN_HTTP | IN_SERVER, "on | off", "http2"),
    SPDY("spdy_init_recv_window_size", IN_HTTP | IN_SERVER, "size", "http2_body_preread_size"),
    SPDY("spdy_chunk_size", IN_HTTP_ALL, "size", "http2_chunk_size"),
    SPDY("spdy_pool_size", IN_HTTP | IN_SERVER, "size", "http2_pool_size"),
    SPDY("spdy_max_concurrent_streams", IN_HTTP | IN_SERVER, "number",
         "http2_max_concurrent_streams"),
    SPDY("spdy_streams_index_size", IN_HTTP | IN_SERVER, "number", "http2_streams_index_size"),
    SPDY("spdy_recv_buffer_size", IN_HTTP, "size", "http2_recv_buffer_size"),
    SPDY("spdy_recv_timeout", IN_HTTP | IN_SERVER, "time", "client_header_timeout"),
    SPDY("spdy_keepalive_timeout", IN_HTTP | IN_SERVER, "time", "keepalive_timeout"),
    {0},
};

/* Always empty: no connection uses SPDY. */
static bool get_nothing(struct variable_env *env, const struct variable *variable, struct str *out)
{
    (void) env;
    (void) variable;
    (void) out;
    return false;
}

static const struct variable spdy_variables[] = {
    {.name = STR_INIT("spdy"),
     .doc = "Always empty: SPDY is no longer supported.",
     .get = get_nothing},
    {.name = STR_INIT("spdy_request_priority"),
     .doc = "Always empty: SPDY is no longer supported.",
     .get = get_nothing},
    {.name = {NULL, 0}},
};
static const struct http_module spdy_hooks = {.variables = spdy_variables};

const struct module ngx_http_spdy_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_spdy_module",
    .kind = MODULE_HTTP,
    .table = {.rows = spdy_rows},
    .hooks = &spdy_hooks,
};
