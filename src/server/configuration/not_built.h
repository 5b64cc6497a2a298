/* Modules that this build is without: whose an unknown directive is. Private to this package. */
#ifndef SERVER_CONFIGURATION_NOT_BUILT_H
#define SERVER_CONFIGURATION_NOT_BUILT_H

#include <stdbool.h>

#include "conf/conf.h"

/*
 * For conf->explain_unknown: "it belongs to ngx_http_gzip_filter_module, which is not built" of
 * "gzip"; "…, which is not in Portunus yet" where no build has the module; of a module that is
 * there but lacks the directive, "it needs TLS, which is not built" or "ngx_http_proxy_module is
 * built without it"; of a stranger's whose load_module was skipped, "it may belong to
 * ngx_http_geoip2_module, which could not be loaded"; empty when nobody is known to have such a
 * directive. Where http and stream have modules that share it, the context (enum context) says
 * whose it is.
 */
struct str not_built_explain(struct conf *conf, struct str directive, uint32_t context);

/* Of a module that exists, but neither in this program nor beside it: "not built", "not in Portunus
 * yet" or "left out of Portunus on purpose"; "" of all others. */
const char *not_built_words(struct str module);

#endif
