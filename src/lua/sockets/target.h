/* Whom a socket is to reach: hosts of connect and setpeername. */
#ifndef LUA_SOCKETS_TARGET_H
#define LUA_SOCKETS_TARGET_H

#include "lua/vm/thread.h"
#include "net/addr/addr.h"

struct socket_target {
    struct str host; /* an address, a name, or "unix:PATH" */
    unsigned port;
    bool is_unix;
};

/*
 * Its address: one of those that the name has. NULL, or why not, as scripts see it: a text on the
 * stack of L. MAY WAIT: for the resolver of the place.
 */
const char *socket_target_find(lua_State *L, struct script_thread *thread,
                               const struct socket_target *target, struct addr *out);

#endif
