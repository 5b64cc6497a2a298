/* The modules of a reading, and their tables under numbers that never change. Private to this
 * package.
 * Implemented in registry.c and generation.c. */
#ifndef SERVER_CONFIGURATION_REGISTRY_H
#define SERVER_CONFIGURATION_REGISTRY_H

#include <stdbool.h>

#include "conf/conf.h"
#include "server/generation.h"

/*
 * Collects the linked modules and those that load_module and dso of the tree name: sets
 * generation->modules and conf->tables. A table keeps its index for the life of the process,
 * whatever a later reading loads or leaves out: requests of an older generation find their settings
 * by it. False after messages.
 */
bool registry_collect(struct conf *conf, struct generation *generation);

/* The module that load_module named and could not load, and that may have this directive because
 * their names share a word; or empty. */
struct str registry_skipped(struct conf *conf, struct str directive);

/*
 * Modules and tables of the configuration, for lists: nothing is applied, and if a file cannot be
 * read, there are only the linked modules. To be freed by generation_free.
 */
struct generation *registry_peek(void);

#endif
