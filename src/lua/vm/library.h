/* Modules in Lua that are built in (src/lua/library): what require finds before any path. */
#ifndef LUA_VM_LIBRARY_H
#define LUA_VM_LIBRARY_H

#include <lua.h>

/* Puts them all into package.preload. */
void script_library_add(lua_State *L);

/* Pushes the function of a part that needs functions of C, as its arguments, to be what it is. May throw. */
void script_library_load(lua_State *L, const char *name);

#endif
