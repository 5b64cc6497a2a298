/* *_bind: the local address of connections to backends. */
#ifndef SHARED_UPSTREAM_BIND_H
#define SHARED_UPSTREAM_BIND_H

#include "conf/directive.h"
#include "net/addr/addr.h"

/* One *_bind. */
struct bind_settings {
    struct template *address; /* IP or IP:port, may contain variables */
    bool is_transparent;      /* the address need not be ours (IP_TRANSPARENT) */
};

/* For a row whose field is a const struct bind_settings *: NULL = any address. */
bool bind_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                void *settings);

/* The address for one subject; len 0: the value is empty, any address is used. False: the value is
 * not an address; logged. */
bool bind_address(const struct bind_settings *bind, struct variable_env *env, struct addr *out);

#endif
