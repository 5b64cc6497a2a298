/* ngx.ctx: a table of a script's own for each request, session, timer. */
#ifndef LUA_VM_CONTEXT_H
#define LUA_VM_CONTEXT_H

#include "lua/vm/thread.h"

/* Adds it to ngx, which must be a global already. */
void script_context_add(lua_State *L);

/* The table on top, which is taken, is the subject's from here on. */
void script_context_set(lua_State *L, struct script_subject *subject);

/* The subject is gone, or another's from here on: what is asked for next is a fresh one. */
void script_context_drop(struct script_subject *subject);

/* For library/context.lua: where the table is in the list of all; 0: nobody asked for it yet; -1: there is none. */
int script_ffi_context(void);

#endif
