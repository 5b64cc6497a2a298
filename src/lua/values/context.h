/* ngx.ctx: a table of a script's own for each request, session, timer. */
#ifndef LUA_VALUES_CONTEXT_H
#define LUA_VALUES_CONTEXT_H

#include <lua.h>

/* Adds it to ngx, which must be a global already. */
void script_context_add(lua_State *L);

/* For library/context.lua: where the table is in the list of all; 0: nobody asked for it yet; -1:
 * there is none. */
int script_ffi_context(void);
/* For library/context.lua: the same of the context that a new one begins as a copy of, or 0. */
int script_ffi_context_before(void);

#endif
