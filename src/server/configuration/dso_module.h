/* load_module and the dso block: they act before anything else is applied. Private to this package.
 */
#ifndef SERVER_CONFIGURATION_DSO_MODULE_H
#define SERVER_CONFIGURATION_DSO_MODULE_H

#include <stdbool.h>

#include "conf/conf.h"
#include "conf/directive.h"

/* Loads what the tree asks for. False after conf_error. */
bool dso_load_all(struct conf *conf);

/* The apply of rows whose work dso_load_all has done: only the number of words is checked. */
bool dso_row_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                   void *settings);

#endif
