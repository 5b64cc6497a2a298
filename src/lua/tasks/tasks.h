/* What Lua does over time: sleep, coroutines, threads, timers, semaphores.
 * Implemented in coroutine.c, semaphore.c, thread.c and timer.c. */
#ifndef LUA_TASKS_TASKS_H
#define LUA_TASKS_TASKS_H

#include <lua.h>

struct generation;

/* Adds ngx.sleep, ngx.thread and ngx.timer to the table on top; coroutine.* and ngx.semaphore are
 * made what they are. */
void script_tasks_add(lua_State *L);

/* The generation is going to end here: its timers that wait run now, with premature = true. */
void script_timers_end(const struct generation *generation);

/* ---- parts of it, in files of their own */

void script_coroutines_add(lua_State *L);
void script_threads_add(lua_State *L);
void script_timers_add(lua_State *L);
void script_semaphore_add(lua_State *L);

#endif
