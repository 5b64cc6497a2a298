/* Shared dictionaries in Lua. Implemented in table.c. */
#ifndef LUA_DICT_LUA_H
#define LUA_DICT_LUA_H

#include <lua.h>

#include "lua/vm/vm.h"

/* Adds ngx.shared to the table on top: the dictionaries of the VM's options. */
void script_dict_add(struct script_vm *vm, lua_State *L);

#endif
