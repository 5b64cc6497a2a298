/* load_module and the dso block, which take effect before anything else is applied. Private to this
   package. */
#ifndef SERVER_CONFIGURATION_DSO_MODULE_H
#define SERVER_CONFIGURATION_DSO_MODULE_H

#include <stdbool.h>

#include "conf/conf.h"
#include "conf/directive.h"

/* Loads the modules that the tree names. False after conf_error. */
bool dso_load_all(struct conf *conf);

/* The apply function of rows whose work dso_load_all has done: only the number of arguments is
   checked. */
bool dso_row_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                   void *settings);

#endif
