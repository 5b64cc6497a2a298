/* The geo block: variables whose values are found by an address. */
#ifndef SHARED_GEO_GEO_H
#define SHARED_GEO_GEO_H

#include "conf/directive.h"
#include "shared/access/forwarded.h"

/* Whose addresses are looked up where the block names no variable. Both are called for subjects of
 * any kind. */
struct geo_clients {
    /* Leaves out as it is, of len 0, for a subject that has none. */
    void (*find)(struct variable_env *env, struct addr *out);
    /* Whom the client speaks for, by what its subject says; NULL: subjects say nothing, there is no
     * `proxy` line. */
    void (*follow)(struct variable_env *env, const struct forwarded *forwarded,
                   struct addr *client);
};

/* Reads a block, and defines its variable among those of the block around it. False after
 * conf_error. */
bool geo_read(struct conf *conf, struct conf_node *node, const struct geo_clients *clients);

#endif
