/* What Lua does over time: sleep, threads, timers, semaphores. */
#ifndef LUA_TASKS_TASKS_H
#define LUA_TASKS_TASKS_H

#include <lua.h>

/* Adds ngx.sleep and so on to the table on top. */
void script_tasks_add(lua_State *L);

#endif
