/* What Lua says to a client: the arguments of ngx.say and related functions as one text. */
#ifndef LUA_VM_SAID_H
#define LUA_VM_SAID_H

#include <lua.h>
#include <stdbool.h>

#include "base/str.h"

/*
 * The text of all arguments on the stack, tables in them flat, with a line feed at its end if
 * `ends_line`. Something is left on the stack that keeps it. An error is thrown for what has no
 * text.
 */
struct str script_said(lua_State *L, bool ends_line);
/* The same; one of up to `size` bytes may stand in this room instead. */
struct str script_said_in(lua_State *L, bool ends_line, char *room, size_t size);

#endif
