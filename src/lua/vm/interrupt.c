/*
 * Interrupts: a hook of LuaJIT that runs once, in front of the next instruction, where it may
 * collect garbage and throw. There is one hook for a whole VM: that of a script is kept meanwhile,
 * and is back before ours works.
 */
#include "lua/vm/interrupt.h"

#include <lauxlib.h>

#include "lua/vm/function.h"
#include "lua/vm/memory.h"
#include "lua/vm/watch.h"

static void on_instruction(lua_State *L, lua_Debug *where)
{
    struct script_vm *vm = script_vm_of(L);
    unsigned interrupts = vm->interrupts;

    (void) where;
    lua_sethook(L, vm->hook.function, vm->hook.mask, vm->hook.count);
    vm->interrupts = 0;
    vm->is_in_hook = true;
    if ((interrupts & SCRIPT_INTERRUPT_WATCH) != 0) {
        script_watch_tell(L);
    }
    bool fails = (interrupts & SCRIPT_INTERRUPT_MEMORY) != 0 && script_memory_is_short(vm, L);
    vm->is_in_hook = false;
    if (fails) {
        lua_pushliteral(L, "not enough memory");
        lua_error(L);
    }
}

void script_interrupt(struct script_vm *vm, enum script_interrupt why)
{
    lua_State *L = vm->state;
    lua_Hook hook = lua_gethook(L);

    vm->interrupts |= why;
    if (hook != on_instruction) {
        vm->hook.function = hook;
        vm->hook.mask = lua_gethookmask(L);
        vm->hook.count = lua_gethookcount(L);
        lua_sethook(L, on_instruction, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
    }
}

/* ---- hooks of scripts */

/* The key of the registry under which the function of a script's hook is. */
static char hook_key;

static void push_hook(lua_State *L)
{
    lua_pushlightuserdata(L, &hook_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
}

/*
 * Runs a script's hook: nothing waits in it, and only its end or an error leaves it. No function of
 * C is between the hook and the function that it is called for, which debuggers expect at level 2.
 */
static void run_hook(lua_State *L, lua_Debug *where)
{
    static const char *const events[] = {"call", "return", "line", "count", "tail return"};
    struct script_vm *vm = script_vm_of(L);
    bool was_in_hook = vm->is_in_hook;

    push_hook(L);
    lua_pushstring(L, events[where->event]);
    if (where->event == LUA_HOOKLINE) {
        lua_pushinteger(L, where->currentline);
    } else {
        lua_pushnil(L);
    }
    vm->is_in_hook = true;
    int status = lua_pcall(L, 2, 0, 0);
    vm->is_in_hook = was_in_hook;
    if (status != 0) {
        lua_error(L);
    }
}

/* debug.sethook([thread,] function, ...); LuaJIT's, which is the first upvalue, checks the
 * arguments and sets the mask. */
static int set_hook(lua_State *L)
{
    int index = lua_isthread(L, 1) ? 2 : 1;
    bool is_set = lua_isfunction(L, index);

    int count = lua_gettop(L);

    lua_pushvalue(L, lua_upvalueindex(1));
    for (int i = 1; i <= count; i++) {
        lua_pushvalue(L, i);
    }
    lua_call(L, count, 0);
    lua_pushlightuserdata(L, &hook_key);
    if (is_set) {
        lua_pushvalue(L, index);
    } else {
        lua_pushnil(L);
    }
    lua_rawset(L, LUA_REGISTRYINDEX);
    if (is_set && lua_gethookmask(L) != 0) {
        lua_sethook(L, run_hook, lua_gethookmask(L), lua_gethookcount(L));
    }
    return 0;
}

/* debug.gethook: gives what the script has set. */
static int get_hook(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    if (lua_gethook(L) == run_hook) {
        push_hook(L);
        lua_replace(L, 1);
    }
    return lua_gettop(L);
}

static void wrap(lua_State *L, const char *name, lua_CFunction function)
{
    lua_getfield(L, -1, name);
    lua_pushcclosure(L, function, 1);
    lua_setfield(L, -2, name);
}

void script_interrupts_add(lua_State *L)
{
    lua_getglobal(L, "debug");
    wrap(L, "sethook", set_hook);
    wrap(L, "gethook", get_hook);
    lua_pop(L, 1);
}
