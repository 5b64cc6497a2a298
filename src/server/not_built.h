/* Modules that this build is without: whose an unknown directive is. Private to this floor. */
#ifndef SERVER_NOT_BUILT_H
#define SERVER_NOT_BUILT_H

#include <stdbool.h>

#include "conf/conf.h"

/*
 * For conf->explain_unknown: "it belongs to ngx_http_gzip_filter_module, which is not built" of
 * "gzip"; of a module that is there but lacks the directive, "it needs TLS, which is not built" or
 * "ngx_http_proxy_module is built without it"; empty when nobody is known to have such a directive.
 */
struct str not_built_explain(struct conf *conf, struct str directive);

/* Is it a module that exists, but neither in this program nor beside it? */
bool not_built_is(struct str module);

#endif
