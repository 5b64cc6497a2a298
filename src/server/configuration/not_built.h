/* Finds the module of an unknown directive among those that this build does not have. Private to
   this package. */
#ifndef SERVER_CONFIGURATION_NOT_BUILT_H
#define SERVER_CONFIGURATION_NOT_BUILT_H

#include <stdbool.h>

#include "conf/conf.h"

/*
 * For conf->explain_unknown. Gives "it belongs to ngx_http_gzip_filter_module, which is not built"
 * for "gzip"; "…, which is not in Portunus yet" if no build has the module; "it needs TLS, which is
 * not built" or "ngx_http_proxy_module of Portunus does not have it" if the module is there but
 * lacks the directive; "it may belong to ngx_http_geoip2_module, which could not be loaded" if a
 * load_module was skipped; an empty string when no module is known to have it. Where http and
 * stream have modules that share the directive, the context (enum context) selects one.
 */
struct str not_built_explain(struct conf *conf, struct str directive, uint32_t context);

/* For a module that exists, but is neither in this program nor loadable: "not built", "not in
 * Portunus yet" or "left out of Portunus on purpose". "" for all others. */
const char *not_built_words(struct str module);

#endif
