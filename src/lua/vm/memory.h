/* lua_memory_limit: memory of a VM, and its bound. */
#ifndef LUA_VM_MEMORY_H
#define LUA_VM_MEMORY_H

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

#include "lua/vm/vm.h"

/*
 * Memory for the VM `arg` (a lua_Alloc). No allocation is refused for the limit, since compiled
 * code of LuaJIT does not live with that: what reaches the limit is looked at by
 * script_memory_is_short, soon after.
 */
void *script_memory_alloc(void *arg, void *old, size_t old_size, size_t size);

/* Its memory as the counters of the worker show it, which is the sum over its VMs. */
void script_memory_show(struct script_vm *vm, uint64_t bytes);

/* Collects all garbage; what finalizers throw goes to the log. */
void script_memory_collect(lua_State *L);

/* At a safe point: collects garbage. True: there is still too much, and what runs has to fail. */
bool script_memory_is_short(struct script_vm *vm, lua_State *L);

/* Lets functions fail that would take more than the limit by one call. In a protected call. */
void script_memory_add(struct script_vm *vm, lua_State *L);

#endif
