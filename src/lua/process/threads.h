/* ngx.run_worker_thread: Lua on a thread of a pool, in a VM of its own. */
#ifndef LUA_PROCESS_THREADS_H
#define LUA_PROCESS_THREADS_H

#include <lua.h>

/* Adds ngx.run_worker_thread to the table on top. */
void script_worker_threads_add(lua_State *L);

#endif
