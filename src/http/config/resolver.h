/* The rows `resolver` and `resolver_file` of http: which name servers answer at run time. */
#ifndef HTTP_CONFIG_RESOLVER_H
#define HTTP_CONFIG_RESOLVER_H

#include <stdbool.h>

#include "conf/directive.h"
#include "net/resolver/resolver.h"

/* Set http_location.resolver. Names of servers are looked up by getaddrinfo, so that this may wait
 * while the configuration is read. */
bool resolver_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings);
bool resolver_file_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings);

#endif
