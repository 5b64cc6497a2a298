/* ngx.worker. */
#include <unistd.h>

#include "lua/process/process.h"
#include "lua/vm/function.h"
#include "server/generation.h"
#include "server/process/server.h"

/* For FFI, by the name that scripts know: the arguments that the program was started with. */
extern char **ngx_argv;
char **ngx_argv;

static int is_exiting(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    lua_pushboolean(L, worker_is_quitting);
    return 1;
}

static int pid(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    lua_pushinteger(L, getpid());
    return 1;
}

static int id(lua_State *L, struct script_thread *thread)
{
    if (thread != NULL && thread->phase == SCRIPT_INIT) {
        lua_pushnil(L);
    } else {
        lua_pushinteger(L, (lua_Integer) worker_slot);
    }
    return 1;
}

static int count(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    lua_pushinteger(L, (lua_Integer) script_vm_of(L)->options->generation->slots);
    return 1;
}

static const struct script_row rows[] = {
    {"worker.exiting", is_exiting, 0, false},
    {"worker.pid", pid, 0, false},
    {"worker.id", id, 0, false},
    {"worker.count", count, 0, false},
    {0},
};

void script_process_add(lua_State *L)
{
    ngx_argv = server.argv;
    script_add(L, rows);
    script_pipe_add(L);
}
