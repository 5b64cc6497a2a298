/* ngx.upstream: groups of servers, as scripts see them; and ngx.dyups: how scripts change them.
 * Implemented in upstream.c and changes.c. */
#ifndef LUA_UPSTREAM_UPSTREAM_H
#define LUA_UPSTREAM_UPSTREAM_H

#include <lua.h>

#include "upstream/upstream.h"

/* Makes `require "ngx.upstream"` find it: the groups are those of the VM's subsystem. */
void script_upstream_add(lua_State *L);

/* Makes `require "ngx.dyups"` find it. */
void script_changes_add(lua_State *L);

/* The groups of the generation and the subsystem that the VM belongs to. */
struct upstream_set *script_upstream_set(lua_State *L);

#endif
