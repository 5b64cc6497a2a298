/* Errors that no code caught: how they are logged. */
#ifndef LUA_VM_FAILURE_H
#define LUA_VM_FAILURE_H

#include <lua.h>

#include "lua/vm/thread.h"

/* The message handler of a thread's call: tells of the error, with the ways that led to it, and
 * gives it on as it is. */
int script_failure_seen(lua_State *L);
/* Puts what stood on the stack of a spawned thread that failed below the error: who waits for it
 * gets all of it, as with OpenResty. */
void script_failure_restore(struct script_thread *thread);
/* The thread has failed: tells of it where the handler could not (no memory was left). */
void script_failure_end(struct script_thread *thread);
/* Its code could not be loaded; a request gets this status. */
void script_failure_load(struct script_subject *subject, enum script_phase phase, int status,
                         const char *message);

/*
 * The way to an error in a coroutine, whose value is on top of L and will be thrown from there, is
 * kept: should nobody catch it, it is reported with the rest. May throw.
 */
void script_failure_keep(lua_State *L, lua_State *failed);

#endif
