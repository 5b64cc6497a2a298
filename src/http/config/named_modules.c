/* Modules in name: what nginx, or Tengine, does in modules of their own is done elsewhere here;
 * filters by the wire (v1/wire.c). Lines that load modules, and readers of `-m`, may ask for them.
 */
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

/* Subrequests come in their order (src/http/request/ordered.c). */
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

/* Tengine 2 has two for SPDY, in whose place HTTP/2 is spoken: ngx_http_spdy_module has the
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
