/* Values of one VM as values of another. */
#ifndef LUA_PROCESS_COPY_H
#define LUA_PROCESS_COPY_H

#include <lua.h>
#include <stdbool.h>

/* Tables in tables; both states need room for SCRIPT_COPY_SLOTS values, which the caller has asked
 * for. */
enum { SCRIPT_COPY_DEPTH = 100, SCRIPT_COPY_SLOTS = 2 * SCRIPT_COPY_DEPTH + 8 };

/*
 * Pushes onto `to` the value at `index` of `from`, which is not changed and does not throw; `to`
 * does where there is no memory. False: it has no copy; a message is pushed instead, which ends in
 * "in the WHERE".
 */
bool script_copy(lua_State *to, lua_State *from, int index, const char *where);

#endif
