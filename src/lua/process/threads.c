/* ngx.run_worker_thread: Lua on a thread of a pool, in a VM of its own, which no other thread
 * touches meanwhile. */
#include "lua/process/threads.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "event/loop.h"
#include "lua/process/copy.h"
#include "lua/vm/core.h"
#include "lua/vm/function.h"
#include "server/generation.h"

/* What lies at the bottom of the main Lua thread of such a VM. */
enum { PLACE_TAKE = 1, PLACE_CALL, PLACE_FREE };

enum { GARBAGE_MAX = 1024 }; /* KB that a VM keeps from one call to the next before it is swept */

/* The VMs for threads of one VM. In a userdata, which the function has. */
struct thread_vms {
    struct script_vm_options options; /* those of the VM, but for the subsystem */
    struct script_subsystem subsystem;
    unsigned count; /* that there are */
    unsigned idle_count;
    struct script_vm *idle[]; /* as many as there may be */
};

/* A call. Allocated, for the thread may outlive the fiber when the worker ends. */
struct thread_work {
    lua_State *state; /* of the VM */
    lua_State *from;  /* who calls */
    int last;         /* of its arguments */
    bool is_failed;
};

/* ---- the VM */

static int refuse_module(lua_State *L)
{
    return luaL_error(L, "module '%s' is not available in a worker thread", luaL_checkstring(L, 1));
}

/* Modules that look at who runs: nobody does there. */
static void refuse_modules(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    lua_pushnil(L);
    while (lua_next(L, -2) != 0) {
        lua_pop(L, 1);
        if (strncmp(lua_tostring(L, -1), "ngx.", 4) == 0) {
            lua_pushvalue(L, -1);
            lua_pushcfunction(L, refuse_module);
            lua_rawset(L, -4);
        }
    }
    lua_pop(L, 2);
}

/* Only what neither waits nor touches what belongs to the loop. */
static void add_to_thread(struct script_vm *vm, lua_State *L)
{
    refuse_modules(L);
    script_restore_getenv(L);
    lua_pushcfunction(L, luaopen_base); /* print is Lua's own */
    lua_call(L, 0, 0);
    lua_pushnil(L);
    lua_setfield(L, -2, "log");
    vm->options->subsystem->add_to_thread(vm, L);
    lua_pushnil(L);
    lua_setfield(L, -2, "update_time"); /* the clock is the loop's */
}

/* Its arguments: work. Gives copies of those of the call. */
static int take_arguments(lua_State *L)
{
    struct thread_work *work = lua_touserdata(L, 1);

    lua_settop(L, 0);
    luaL_checkstack(L, work->last + SCRIPT_COPY_SLOTS, "too many arguments");
    for (int i = 2; i <= work->last; i++) {
        if (!script_copy(L, work->from, i, "argument")) {
            return lua_error(L);
        }
    }
    return lua_gettop(L);
}

static int fail_plainly(lua_State *L, const char *message)
{
    lua_pushstring(L, message);
    return lua_error(L);
}

/* On the thread. Its arguments: names of the module and of the function, and what that is called
 * with. */
static int call_function(lua_State *L)
{
    if (lua_gc(L, LUA_GCCOUNT, 0) > GARBAGE_MAX) {
        lua_gc(L, LUA_GCCOLLECT, 0);
    }
    luaL_checkstack(L, 4, NULL);
    lua_getglobal(L, "require");
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    if (!lua_istable(L, -1)) {
        return fail_plainly(L, "invalid lua module");
    }
    lua_pushvalue(L, 2);
    lua_gettable(L, -2);
    if (!lua_isfunction(L, -1)) {
        return fail_plainly(L, "invalid function");
    }
    lua_replace(L, 2);
    lua_pop(L, 1);
    lua_call(L, lua_gettop(L) - 2, LUA_MULTRET);
    return lua_gettop(L) - 1;
}

static int script_threads_prepare(lua_State *L)
{
    lua_pushcfunction(L, take_arguments);
    lua_pushcfunction(L, call_function);
    return 2;
}

/* NULL, with *reason: there are as many as may be, or there is no memory. */
static struct script_vm *take_vm(struct thread_vms *vms, const struct log *log, const char **reason)
{
    if (vms->idle_count > 0) {
        struct script_vm *vm = vms->idle[--vms->idle_count];

        lua_settop(vm->state, PLACE_FREE - 1);
        return vm;
    }
    *reason = "no available Lua vm";
    if (vms->count >= (unsigned) vms->options.thread_vms) {
        return NULL;
    }
    struct script_vm *vm = script_vm_new(&vms->options, log);

    if (vm == NULL) {
        return NULL;
    }
    lua_pushcfunction(vm->state, script_threads_prepare);
    if (lua_pcall(vm->state, 0, LUA_MULTRET, 0) != 0) {
        script_vm_free(vm);
        return NULL;
    }
    vms->count++;
    return vm;
}

static void give_back_vm(struct thread_vms *vms, struct script_vm *vm)
{
    vms->idle[vms->idle_count++] = vm;
}

static int free_vms(lua_State *L)
{
    struct thread_vms *vms = lua_touserdata(L, 1);

    while (vms->idle_count > 0) {
        script_vm_free(vms->idle[--vms->idle_count]);
    }
    return 0;
}

/* ---- the call */

static int script_threads_refuse(lua_State *L, const char *reason)
{
    lua_pushboolean(L, false);
    lua_pushstring(L, reason);
    return 2;
}

/* On the thread, where script_running() is NULL. */
static void run_on_thread(void *arg)
{
    struct thread_work *work = arg;

    work->is_failed =
        lua_pcall(work->state, lua_gettop(work->state) - PLACE_FREE, LUA_MULTRET, 0) != 0;
}

/* What is wrong with the three texts; NULL: nothing. */
static const char *check_names(lua_State *L)
{
    static const char *const wrong[] = {"threadpool should be a string",
                                        "module name should be a string",
                                        "function name should be a string"};

    if (lua_gettop(L) < 3) {
        return "expecting at least 3 arguments";
    }
    for (int i = 0; i < 3; i++) {
        if (!lua_isstring(L, i + 1)) {
            return wrong[i];
        }
    }
    return NULL;
}

/* The results that lie in the VM, or its message. */
static int push_results(lua_State *L, lua_State *from, bool is_failed)
{
    int last = lua_gettop(from);

    lua_settop(L, 0);
    if (is_failed) {
        return script_threads_refuse(L, lua_type(from, -1) == LUA_TSTRING ? lua_tostring(from, -1)
                                                                          : "");
    }
    luaL_checkstack(L, last + SCRIPT_COPY_SLOTS, "too many results");
    if (!lua_checkstack(from, SCRIPT_COPY_SLOTS)) {
        return script_threads_refuse(L, "not enough memory");
    }
    lua_pushboolean(L, true);
    for (int i = PLACE_FREE; i <= last; i++) {
        if (!script_copy(L, from, i, "return value")) {
            lua_pushboolean(L, false);
            lua_insert(L, -2);
            return 2;
        }
    }
    return lua_gettop(L);
}

/* Runs the call in the VM, and waits for it. MAY WAIT. Gives what went wrong, or NULL: is_failed
 * tells. */
static const char *run_in_vm(struct thread_work *work, struct thread_pool *pool)
{
    lua_pushvalue(work->state, PLACE_CALL);
    lua_pushvalue(work->state, PLACE_TAKE);
    lua_pushlightuserdata(work->state, work);
    if (lua_pcall(work->state, 1, LUA_MULTRET, 0) != 0) {
        work->is_failed = true;
        return NULL;
    }
    enum thread_called called = thread_pool_call(pool, run_on_thread, work);

    return called == THREAD_CALL_DONE ? NULL : "no thread is available";
}

static int run_worker_thread(lua_State *L, struct script_thread *thread)
{
    struct thread_vms *vms = lua_touserdata(L, script_value_index(1));
    const char *reason = check_names(L);

    if (reason != NULL) {
        return script_threads_refuse(L, reason);
    }
    struct thread_pool *pool = worker_thread_pool(script_check_str(L, 1));

    if (pool == NULL) {
        return script_threads_refuse(L, lua_pushfstring(L, "thread pool %s not found",
                                                        lua_tostring(L, 1)));
    }
    luaL_checkstack(L, SCRIPT_COPY_SLOTS, "too many arguments");
    struct script_vm *vm = take_vm(vms, thread->subject->log, &reason);

    if (vm == NULL) {
        return script_threads_refuse(L, reason);
    }
    struct thread_work *work = calloc(1, sizeof(*work));

    if (work == NULL) {
        fatal_no_memory(sizeof(*work));
    }
    work->state = vm->state;
    work->from = L;
    work->last = lua_gettop(L);
    reason = run_in_vm(work, pool);
    bool is_failed = work->is_failed;
    free(work);
    give_back_vm(vms, vm); /* what lies on its stack stays until it is taken, and nobody takes it
                              before we wait */
    return reason != NULL ? script_threads_refuse(L, reason)
                          : push_results(L, vm->state, is_failed);
}

static const struct script_row row = {"run_worker_thread", run_worker_thread, SCRIPT_WAITING, true};

void script_worker_threads_add(lua_State *L)
{
    const struct script_vm_options *options = script_vm_of(L)->options;
    size_t size =
        sizeof(struct thread_vms) + (size_t) options->thread_vms * sizeof(struct script_vm *);
    struct thread_vms *vms = lua_newuserdata(L, size);

    memset(vms, 0, size);
    vms->subsystem = *options->subsystem;
    vms->subsystem.add = add_to_thread;
    vms->options = *options;
    vms->options.subsystem = &vms->subsystem;
    lua_newtable(L);
    lua_pushcfunction(L, free_vms);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    script_push_closure(L, &row, 1);
    lua_setfield(L, -2, row.name);
}
