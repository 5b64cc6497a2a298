/* Modules in name: what nginx does in filters of their own is done by the wire here (v1/wire.c). */
#include "server/module.h"

/* Sending and rate limits. */
const struct module ngx_http_write_filter_module = {.magic = MODULE_MAGIC,
                                                    .name = "ngx_http_write_filter_module",
                                                    .kind = MODULE_HTTP};

/* The chunked transfer coding. */
const struct module ngx_http_chunked_filter_module = {.magic = MODULE_MAGIC,
                                                      .name = "ngx_http_chunked_filter_module",
                                                      .kind = MODULE_HTTP};
