/* Work that running Lua does at its next safe point, and the debug hooks of scripts. */
#ifndef LUA_VM_INTERRUPT_H
#define LUA_VM_INTERRUPT_H

#include <lua.h>

#include "lua/vm/vm.h"

enum script_interrupt {
    SCRIPT_INTERRUPT_WATCH = 1 << 0,  /* script_watch_tell */
    SCRIPT_INTERRUPT_MEMORY = 1 << 1, /* script_memory_is_short, and what follows from that */
};

/*
 * What runs now in the VM, or runs next, does this before its next instruction of interpreted code.
 * Compiled code does not look. May be called in a signal handler, and while Lua allocates.
 */
void script_interrupt(struct script_vm *vm, enum script_interrupt why);

/* Replaces debug.sethook and debug.gethook: while a hook of a script runs, vm->is_in_hook is set.
 */
void script_interrupts_add(lua_State *L);

#endif
