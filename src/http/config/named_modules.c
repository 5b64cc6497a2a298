/* Modules that exist in name only: their work in nginx or Tengine is done elsewhere here, that of
 * filters by the wire (v1/wire.c). Directives that load modules, and scripts that read `-m`, may
 * look for them. */
#include "server/module.h"

#include "http/routing/hooks.h"

/* Sending and rate limits. */
const struct module ngx_http_write_filter_module = {.magic = MODULE_MAGIC,
                                                    .name = "ngx_http_write_filter_module",
                                                    .kind = MODULE_HTTP};

/* The chunked transfer coding. */
const struct module ngx_http_chunked_filter_module = {.magic = MODULE_MAGIC,
                                                      .name = "ngx_http_chunked_filter_module",
                                                      .kind = MODULE_HTTP};

/* Subrequests are sent in order by src/http/request/ordered.c. */
const struct module ngx_http_postpone_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_postpone_filter_module",
    .kind = MODULE_HTTP,
};

/* proxy_cache_purge and similar directives are rows of the modules that cache
 * (src/http/exchange/cache). */
const struct module ngx_http_cache_purge_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_cache_purge_module",
    .kind = MODULE_HTTP,
};

/* Tengine 2 has two modules for SPDY; HTTP/2 has replaced it, and ngx_http_spdy_module has the
 * directives. */
const struct module ngx_http_spdy_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_spdy_filter_module",
    .kind = MODULE_HTTP,
};

const struct module ndk_http_module = {
    .magic = MODULE_MAGIC,
    .name = "ndk_http_module",
    .kind = MODULE_HTTP,
};
