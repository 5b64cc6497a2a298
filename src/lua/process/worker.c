/* ngx.worker, and the module ngx.process. */
#include <signal.h>
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

static int pids(lua_State *L, struct script_thread *thread)
{
    const struct generation *generation = script_vm_of(L)->options->generation;
    unsigned max = generation->slots;
    pid_t *list = lua_newuserdata(L, (max + 1) * sizeof(*list));
    unsigned found = generation->core->master_process ? workers_pids(list, max) : 1;

    (void) thread;
    if (!generation->core->master_process) {
        list[0] = getpid();
    }
    lua_createtable(L, (int) found, 0);
    for (unsigned i = 0; i < found; i++) {
        lua_pushinteger(L, list[i]);
        lua_rawseti(L, -2, (int) i + 1);
    }
    return 1;
}

/* ---- ngx.process */

static bool is_in_master(const struct script_thread *thread)
{
    return thread == NULL || thread->phase == SCRIPT_INIT;
}

static int type(lua_State *L, struct script_thread *thread)
{
    const struct generation *generation = script_vm_of(L)->options->generation;

    lua_pushstring(L, !generation->core->master_process ? "single"
                      : is_in_master(thread)      ? "master"
                                                  : "worker");
    return 1;
}

static int master_pid(lua_State *L, struct script_thread *thread)
{
    bool is_own = !script_vm_of(L)->options->generation->core->master_process || is_in_master(thread);

    lua_pushinteger(L, is_own ? getpid() : getppid());
    return 1;
}

static int signal_graceful_exit(lua_State *L, struct script_thread *thread)
{
    (void) L;
    (void) thread;
    kill(getpid(), SIGQUIT);
    return 0;
}

static const struct script_row process_rows[] = {
    {"type", type, 0, false},
    {"get_master_pid", master_pid, 0, false},
    {"signal_graceful_exit", signal_graceful_exit, 0, false},
    {0},
};

static int open_process(lua_State *L)
{
    lua_newtable(L);
    script_add(L, process_rows);
    return 1;
}

static const struct script_row rows[] = {
    {"worker.exiting", is_exiting, 0, false},
    {"worker.pid", pid, 0, false},
    {"worker.id", id, 0, false},
    {"worker.count", count, 0, false},
    {"worker.pids", pids, 0, false},
    {0},
};

void script_process_add(lua_State *L)
{
    ngx_argv = server.argv;
    script_add(L, rows);
    script_pipe_add(L);
    script_preload(L, "ngx.process", open_process);
}
