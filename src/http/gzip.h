/* May a response be compressed for this client? Shared by the modules that compress, send what was compressed
 * before, or unpack. */
#ifndef HTTP_GZIP_H
#define HTTP_GZIP_H

#include <stdbool.h>

#include "conf/directive.h"

struct request;

/* Rows of ngx_http_core_module: gzip_http_version, gzip_proxied, gzip_disable, gzip_vary. */
extern struct directive_table http_gzip_table;

/*
 * Does the client take gzip (RFC 9110, 12.5.3), and do gzip_http_version, gzip_disable and, for requests that
 * came through a proxy, gzip_proxied agree? Looks at the response head for the latter. Never for
 * subrequests: theirs are parts of a response.
 */
bool request_accepts_gzip(struct request *request);

/* The answer depends on Accept-Encoding: where gzip_vary is on, Vary says so, once. */
void response_varies_by_encoding(struct request *request);

#endif
