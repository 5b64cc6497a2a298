/*
 * Interrupts: a hook of LuaJIT that runs once, in front of the next instruction, where it may collect garbage and throw. There is
 * one hook for a whole VM: that of a script is kept meanwhile, and is back before ours works.
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

/* In place of a script's hook, which is the first upvalue: nobody waits in it, and nobody leaves it but by its end or an error. */
static int run_hook(lua_State *L)
{
    struct script_vm *vm = script_vm_of(L);
    bool was_in_hook = vm->is_in_hook;

    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    vm->is_in_hook = true;
    int status = lua_pcall(L, lua_gettop(L) - 1, 0, 0);
    vm->is_in_hook = was_in_hook;
    return status != 0 ? lua_error(L) : 0;
}

/* debug.sethook([thread,] function, ...), which is the first upvalue. */
static int set_hook(lua_State *L)
{
    int index = lua_isthread(L, 1) ? 2 : 1;

    if (lua_isfunction(L, index)) {
        lua_pushvalue(L, index);
        lua_pushcclosure(L, run_hook, 1);
        lua_replace(L, index);
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}

/* debug.gethook: gives what the script has set. */
static int get_hook(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    if (lua_tocfunction(L, 1) == run_hook && lua_getupvalue(L, 1, 1) != NULL) {
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
