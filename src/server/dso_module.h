/* load_module and the dso block: they act before anything else is applied. Private to this floor.
 */
#ifndef SERVER_DSO_MODULE_H
#define SERVER_DSO_MODULE_H

#include <stdbool.h>

#include "conf/conf.h"

/* Loads what the tree asks for. False after conf_error. */
bool dso_load_all(struct conf *conf);

#endif
