/* What Lua computes: hashes, encodings, times, regular expressions; and the parts of the API that
 * are written in Lua. */
#ifndef LUA_VALUES_VALUES_H
#define LUA_VALUES_VALUES_H

#include <lua.h>

#include "lua/vm/vm.h"

/* Adds ngx.md5, ngx.re and so on to the table on top. */
void script_values_add(struct script_vm *vm, lua_State *L);

#endif
