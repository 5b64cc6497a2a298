/* ngx.log and print. */
#ifndef LUA_VM_LOG_H
#define LUA_VM_LOG_H

#include <lua.h>

#include "lua/vm/thread.h"

/* Where lines of this thread go. */
const struct log *script_log_of(const struct script_thread *thread);

/* Adds ngx.log and the levels to the table on top, and print to the globals. */
void script_log_add(lua_State *L);

#endif
