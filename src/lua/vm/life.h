/* The life of a subsystem's VM: made when the configuration is open, called at the worker's start
 * and end. */
#ifndef LUA_VM_LIFE_H
#define LUA_VM_LIFE_H

#include <stdbool.h>

#include "lua/vm/vm.h"

/*
 * In the master, for a module's hook `opened`: makes the VM and runs init_by_lua; with -t compiles
 * what there is to compile instead, and *out is NULL. Without any chunk nothing is made. False: the
 * start fails; the reason was logged.
 */
bool script_opened(const struct script_vm_options *options, struct script_vm **out);

/* In each worker before it serves: init_worker_by_lua. An error is logged, and the worker serves.
 * NULL is fine. */
void script_worker_begins(struct script_vm *vm);
/* Last words: exit_worker_by_lua. NULL is fine. */
void script_worker_ends(struct script_vm *vm);

/* A VM for one subject alone (lua_code_cache off), with init_by_lua run in it. NULL: the reason was
 * logged. */
struct script_vm *script_vm_private(const struct script_vm_options *options, const struct log *log);

#endif
