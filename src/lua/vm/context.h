/* Where the tables of ngx.ctx are: a list in the VM. */
#ifndef LUA_VM_CONTEXT_H
#define LUA_VM_CONTEXT_H

#include "lua/vm/thread.h"

/* Pushes the list of them all. */
void script_contexts_push(lua_State *L);

/* The table on top, which is taken, is the subject's from here on. */
void script_context_set(lua_State *L, struct script_subject *subject);

/* The subject is gone, or another's from here on: what is asked for next is a fresh one. */
void script_context_drop(struct script_subject *subject);

/* A place that is nobody's any more. */
void script_context_release(struct script_vm *vm, int position);

#endif
