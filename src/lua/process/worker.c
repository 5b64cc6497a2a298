/* ngx.worker, and the module ngx.process. */
#include <signal.h>
#include <unistd.h>

#include "lua/process/process.h"
#include "lua/vm/function.h"
#include "lua/vm/library.h"
#include "server/generation.h"
#include "server/process/server.h"

/* For FFI, by the name that scripts know: the arguments that the program was started with. */
extern char **ngx_argv;
char **ngx_argv;

/* Called by FFI (library/process/worker.lua). */
int script_ffi_worker_exiting(void);
int script_ffi_worker_pid(void);
int script_ffi_worker_id(void);
int script_ffi_worker_count(void);
int script_ffi_process_is_single(void);
int script_ffi_process_is_agent(void);
int script_ffi_process_want_agent(double connections);
int script_ffi_process_is_master(void);
int script_ffi_process_master_pid(void);
void script_ffi_process_quit(void);

/* Of the VM that runs; NULL: none does. */
static struct generation *generation_of_running(void)
{
    return script_running() != NULL ? script_running()->subject->vm->options->generation
                                    : generation_now;
}

int script_ffi_worker_exiting(void)
{
    return worker_is_quitting;
}

int script_ffi_worker_pid(void)
{
    return getpid();
}

int script_ffi_process_is_master(void)
{
    return script_running() == NULL || script_running()->phase == SCRIPT_INIT;
}

int script_ffi_process_is_agent(void)
{
    return worker_role == WORKER_AGENT;
}

/* -1: the configuration was read already. */
int script_ffi_process_want_agent(double connections)
{
    if (script_running() == NULL || script_running()->phase != SCRIPT_INIT) {
        return -1;
    }
    struct generation *generation = generation_of_running();

    generation->agent_connections = connections < UINT32_MAX ? (uint32_t) connections : UINT32_MAX;
    generation->has_agent = true;
    return 0;
}

/* -1: there is no worker yet, or never. */
int script_ffi_worker_id(void)
{
    return worker_role != WORKER_SERVES || script_ffi_process_is_master() ? -1 : (int) worker_slot;
}

int script_ffi_worker_count(void)
{
    return (int) generation_of_running()->core->worker_processes; /* with a single process, too */
}

int script_ffi_process_is_single(void)
{
    return !generation_of_running()->core->master_process;
}

int script_ffi_process_master_pid(void)
{
    bool is_own = script_ffi_process_is_single() || script_ffi_process_is_master();

    return is_own ? getpid() : getppid();
}

void script_ffi_process_quit(void)
{
    kill(getpid(), SIGQUIT);
}

static int pids(lua_State *L, struct script_thread *thread)
{
    const struct generation *generation = script_vm_of(L)->options->generation;
    if (thread != NULL && (thread->phase & (SCRIPT_INIT | SCRIPT_INIT_WORKER)) != 0) {
        return script_fail(L,
                           "API disabled in the current context"); /* not all have been started */
    }
    unsigned max = generation->slots;
    pid_t *list = lua_newuserdata(L, (max + 1) * sizeof(*list));
    unsigned found = generation->core->master_process ? workers_pids(list, max) : 1;

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

SCRIPT_TEXT(script_process_text, "src/lua/library/process/worker.lua")

static const struct script_row rows[] = {
    {"worker.pids", pids, 0, false},
    {0},
};

void script_process_add(lua_State *L)
{
    ngx_argv = server.argv;
    script_add(L, rows);
    script_pipe_add(L);
    lua_pushvalue(L, -1);
    script_text_run(L, "process.worker", SCRIPT_TEXT_OF(script_process_text), 1);
}
