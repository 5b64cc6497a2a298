/* The modules of a reading, and their tables under numbers that never change. Private to this
 * package.
 * Implemented in registry.c and generation.c. */
#ifndef SERVER_CONFIGURATION_REGISTRY_H
#define SERVER_CONFIGURATION_REGISTRY_H

#include <stdbool.h>

#include "conf/conf.h"
#include "server/generation.h"

/*
 * Linked modules and those that load_module and dso of the tree name: sets generation->modules and
 * conf->tables. A table has one index for the life of the process, whatever is loaded or left out
 * by a later reading: requests of an older generation find their settings by it. False after
 * messages.
 */
bool registry_collect(struct conf *conf, struct generation *generation);

/* The module that load_module named and could not load whose directive this may be, by the words of
 * both names; or empty. */
struct str registry_skipped(struct conf *conf, struct str directive);

/*
 * Modules and tables as the configuration has them, for lists: nothing is applied, and a file that
 * cannot be read means the linked modules alone. To be freed by generation_free.
 */
struct generation *registry_peek(void);

#endif
