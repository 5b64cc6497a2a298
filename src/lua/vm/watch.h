/* lua_time_limit: a script that computes for long without a wait is logged, since the whole worker
 * waits with it. */
#ifndef LUA_VM_WATCH_H
#define LUA_VM_WATCH_H

#include <lua.h>
#include <stdint.h>

/*
 * From now on in this process, on this thread; 0 = nothing is logged. The lowest limit of several
 * calls holds. A script that takes longer is logged once for each turn of the loop, with a
 * traceback; its worker continues.
 */
void script_watch_begin(uint64_t limit_ms);

/* Tells where the Lua that runs is: of an interrupt (interrupt.h). */
void script_watch_tell(lua_State *L);

#endif
