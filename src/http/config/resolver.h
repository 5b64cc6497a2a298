/* The rows `resolver` and `resolver_file` of http: the name servers at run time. Implemented in
 * core_values.c. */
#ifndef HTTP_CONFIG_RESOLVER_H
#define HTTP_CONFIG_RESOLVER_H

#include "upstream/settings/resolver_rows.h"

/* Set http_location.resolver; they exclude each other at one level. */
bool resolver_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings);
bool resolver_file_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings);

#endif
