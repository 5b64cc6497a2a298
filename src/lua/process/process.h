/* What Lua knows of its process, and does with others. Implemented in pipe.c and worker.c. */
#ifndef LUA_PROCESS_PROCESS_H
#define LUA_PROCESS_PROCESS_H

#include <lua.h>

/* Adds ngx.worker to the table on top. */
void script_process_add(lua_State *L);

/* Puts ngx.pipe into package.preload (pipe.c). */
void script_pipe_add(lua_State *L);

#endif
