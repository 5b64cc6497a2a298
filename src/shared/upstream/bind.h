/* *_bind: where connections to backends come from. */
#ifndef SHARED_UPSTREAM_BIND_H
#define SHARED_UPSTREAM_BIND_H

#include "conf/directive.h"
#include "net/addr/addr.h"

/* What one says. */
struct bind_settings {
    struct template *address; /* IP or IP:port, may hold variables */
    bool is_transparent;      /* the address need not be ours (IP_TRANSPARENT) */
};

/* Of a row whose field is a const struct bind_settings *: NULL = from any address. */
bool bind_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                void *settings);

/* The address for one subject; len 0: the text came to nothing, any will do. False: it is no
 * address; logged. */
bool bind_address(const struct bind_settings *bind, struct variable_env *env, struct addr *out);

#endif
