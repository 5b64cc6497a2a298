/* Rules about clients and proxies, the same for all modules that encode, decode, or send what was
 * encoded before. */
#ifndef HTTP_CODINGS_RULES_H
#define HTTP_CODINGS_RULES_H

#include <stdbool.h>

#include "conf/directive.h"

struct request;

/* Rows of ngx_http_core_module: gzip_http_version, gzip_proxied, gzip_disable, gzip_vary. */
extern struct settings_key http_gzip_key;
extern const struct directive_table http_gzip_table;

/*
 * Do gzip_http_version, gzip_disable and, for requests that came through a proxy, gzip_proxied
 * agree? Looks at the response head for the latter.
 */
bool gzip_rules_allow(struct request *request);

/* compression_memory_limit at the place of the request: bytes; 0 = none. */
uint64_t compression_memory_limit(const struct request *request);

/* gzip_vary at the place of the request. */
bool gzip_varies(const struct request *request);
/* The answer depends on Accept-Encoding: where gzip_vary is on, Vary says so, once. */
void response_varies_by_encoding(struct request *request);

#endif
