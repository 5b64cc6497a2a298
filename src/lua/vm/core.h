/* What every script finds, of whatever subsystem: constants, phase and configuration. */
#ifndef LUA_VM_CORE_H
#define LUA_VM_CORE_H

#include <lua.h>

#include "lua/vm/vm.h"

/* Adds ngx.null, ngx.OK and so on, ngx.get_phase and ngx.config to the table on top. */
void script_core_add(struct script_vm *vm, lua_State *L);

/* For library/phase.lua: enum script_phase of the thread that runs. */
unsigned script_ffi_phase(void);
unsigned script_ffi_phase_number(void);

/* init_by_lua has run: os.getenv is Lua's own again, since workers have the environment that `env`
 * makes. May throw. */
void script_restore_getenv(lua_State *L);

/* Globals that are written from now on are logged. May throw. */
void script_guard_globals(lua_State *L);

#endif
