/* Modules in Lua that are built in (src/lua/library): what require finds before any path. */
#ifndef LUA_VM_LIBRARY_H
#define LUA_VM_LIBRARY_H

#include <lua.h>

/* Puts the modules into package.preload. */
void script_library_add(lua_State *L);

/* Pushes the function of a file of src/lua/library: "values/text.lua". An error is thrown where there is none. */
void script_library_push(lua_State *L, const char *file);

#endif
