/* Rules about clients and proxies, for all modules that encode, decode, or send precompressed
 * files. */
#ifndef HTTP_CODINGS_RULES_H
#define HTTP_CODINGS_RULES_H

#include <stdbool.h>

#include "conf/directive.h"

struct request;

/* Rows of ngx_http_core_module: gzip_http_version, gzip_proxied, gzip_disable, gzip_vary. */
extern struct settings_key http_gzip_key;
extern const struct directive_table http_gzip_table;

/* Do gzip_http_version, gzip_disable and, for requests through a proxy, gzip_proxied allow
 * compression? The latter depends on the response header. */
bool gzip_rules_allow(struct request *request);

/* compression_memory_limit of the request's location: bytes; 0 = unlimited. */
uint64_t compression_memory_limit(const struct request *request);

/* gzip_vary of the request's location. */
bool gzip_varies(const struct request *request);
/* The response depends on Accept-Encoding: adds Vary once, if gzip_vary is on. */
void response_varies_by_encoding(struct request *request);

#endif
