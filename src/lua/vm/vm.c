/* Virtual machines: made, bounded and freed. */
#include "lua/vm/vm.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "lua/vm/core.h"
#include "lua/vm/failure.h"
#include "lua/vm/function.h"
#include "lua/vm/interrupt.h"
#include "lua/vm/library.h"
#include "lua/vm/log.h"
#include "lua/vm/memory.h"
#include "lua/vm/thread.h"
#include "server/generation.h"

/* collectgarbage: whether a script has stopped that nobody could ask Lua else. */
static int collect_garbage(lua_State *L)
{
    const char *what = lua_type(L, 1) == LUA_TSTRING ? lua_tostring(L, 1) : "collect";

    if (strcmp(what, "stop") == 0) {
        script_vm_of(L)->is_collector_stopped = true;
    } else if (strcmp(what, "restart") == 0 || strcmp(what, "collect") == 0 ||
               strcmp(what, "step") == 0) {
        script_vm_of(L)->is_collector_stopped = false;
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* lua_package_path and lua_package_cpath: ";;" stands for what was there. */
static void set_path(lua_State *L, const char *field, struct str path)
{
    if (path.len == 0) {
        return;
    }
    lua_getglobal(L, "package");
    lua_getfield(L, -1, field);
    const char *former = lua_tostring(L, -1);
    script_push_str(L, path);
    luaL_gsub(L, lua_tostring(L, -1), ";;", ";\1;");
    luaL_gsub(L, lua_tostring(L, -1), "\1", former != NULL ? former : "");
    lua_setfield(L, -5, field);
    lua_settop(L, -5);
}

/* The table ngx, and what belongs to it. In a protected call. */
static int fill(lua_State *L)
{
    struct script_vm *vm = lua_touserdata(L, 1);

    luaL_openlibs(L);
    lua_getglobal(L, "collectgarbage");
    lua_pushcclosure(L, collect_garbage, 1);
    lua_setglobal(L, "collectgarbage");
    script_interrupts_add(L);
    script_memory_add(vm, L);
    lua_pushcfunction(L, script_failure_seen);
    vm->failure_seen = luaL_ref(L, LUA_REGISTRYINDEX);
    set_path(L, "path", vm->options->package_path);
    set_path(L, "cpath", vm->options->package_cpath);
    script_library_add(L);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setglobal(L, "ngx");
    script_log_add(L);
    script_core_add(vm, L);
    vm->options->subsystem->add(vm, L);
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "loaded");
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "ngx");
    /* Scripts find it loaded. */
    lua_getglobal(L, "require");
    lua_pushliteral(L, "resty.core");
    lua_call(L, 1, 0);
    return 0;
}

struct script_vm *script_vm_new(const struct script_vm_options *options, const struct log *log)
{
    struct script_vm *vm = calloc(1, sizeof(*vm));

    if (vm == NULL) {
        fatal_no_memory(sizeof(*vm));
    }
    vm->magic = SCRIPT_VM_MAGIC;
    vm->options = options;
    vm->check_at = options->memory_limit;
    list_init(&vm->idle);
    list_init(&vm->subjects);
    vm->functions = calloc(options->code_count + 1, sizeof(*vm->functions));
    if (vm->functions == NULL) {
        fatal_no_memory((options->code_count + 1) * sizeof(*vm->functions));
    }
    for (unsigned i = 0; i <= options->code_count; i++) {
        vm->functions[i] = LUA_NOREF;
    }
    vm->state = lua_newstate(script_memory_alloc, vm);
    if (vm->state == NULL) {
        log_emerg(log, 0, "failed to initialize Lua VM");
        free(vm->functions);
        free(vm);
        return NULL;
    }
    if (lua_cpcall(vm->state, fill, vm) != 0) {
        log_emerg(log, 0, "failed to initialize Lua VM: %s", lua_tostring(vm->state, -1));
        script_vm_free(vm);
        return NULL;
    }
    return vm;
}

void script_vm_free(struct script_vm *vm)
{
    struct list *item;

    if (vm == NULL) {
        return;
    }
    while ((item = list_pop_front(&vm->idle)) != NULL) {
        free(container_of(item, struct script_thread, node));
    }
    /* Finalizers run now. They work for no thread, not even for the one that had the VM end. */
    struct script_thread *running = script_running();
    fiber_word = NULL;
    lua_close(vm->state);
    script_memory_show(vm, 0);
    fiber_word = running;
    free(vm->nobody);
    for (size_t i = 0; i < sizeof(vm->parts) / sizeof(vm->parts[0]); i++) {
        free(vm->parts[i]);
    }
    free(vm->functions);
    free(vm);
}
