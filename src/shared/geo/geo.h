/* The geo block: variables whose values depend on an address. */
#ifndef SHARED_GEO_GEO_H
#define SHARED_GEO_GEO_H

#include "conf/directive.h"
#include "shared/access/forwarded.h"

/* Where addresses come from when the block names no variable. Both functions are called for
 * subjects of any kind. */
struct geo_clients {
    /* Leaves *out unchanged, with len 0, for a subject without an address. */
    void (*find)(struct variable_env *env, struct addr *out);
    /* Replaces the client by the one that its subject's header fields name, if it is trusted; NULL:
     * subjects have no such fields, and blocks no `proxy`. */
    void (*follow)(struct variable_env *env, const struct forwarded *forwarded,
                   struct addr *client);
};

/* Reads a block, and defines its variable in the enclosing block's set. False after conf_error. */
bool geo_read(struct conf *conf, struct conf_node *node, const struct geo_clients *clients);

#endif
