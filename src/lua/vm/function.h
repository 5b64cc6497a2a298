/* Functions that Lua code can call: rows of a table. */
#ifndef LUA_VM_FUNCTION_H
#define LUA_VM_FUNCTION_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "lua/vm/thread.h"

/* As lua_CFunction; thread is the one that runs. */
typedef int script_function(lua_State *L, struct script_thread *thread);

/* With the phases of a row: the function calls script_demand itself, once it has looked at its
 * arguments. */
#define SCRIPT_ARGUMENTS_FIRST (1u << 31)

struct script_row {
    const char *name; /* "sleep"; "req.get_method" makes the table req where it is missing */
    script_function *run;
    uint32_t phases; /* enum script_phase: where it may be called; 0 = everywhere */
    /* MAY WAIT. When the thread was killed meanwhile it leaves as soon as the function has
     * returned, so that functions only clean up then, and what they return does not matter. */
    bool waits;
};

/* Adds the rows (ended by a NULL name) to the table on top of the stack. */
void script_add(lua_State *L, const struct script_row *rows);
/* Pushes one row as a function: for metatables. The row must live as long as the program. */
void script_push_function(lua_State *L, const struct script_row *row);
/* The same with `count` values, which are on top of the stack and are taken: the function finds
 * them at script_value_index(1) and on. */
void script_push_closure(lua_State *L, const struct script_row *row, int count);
#define script_value_index(n) lua_upvalueindex(1 + (n))

/* Is the phase one of these? Else an error is thrown: "API disabled in the context of …". */
void script_demand(lua_State *L, const struct script_thread *thread, uint32_t phases);

/* `return script_fail(L, "closed");`: nil and a reason. */
int script_fail(lua_State *L, const char *reason);

static inline void script_push_str(lua_State *L, struct str text)
{
    lua_pushlstring(L, text.data, text.len);
}

/* The text of an argument, which is a string or a number; else an error is thrown. */
static inline struct str script_check_str(lua_State *L, int index)
{
    struct str text;
    text.data = luaL_checklstring(L, index, &text.len);
    return text;
}

/* A module for require, in package.preload: `open` is a lua_CFunction that gives it. The table ngx
 * need not know it. */
void script_preload(lua_State *L, const char *name, lua_CFunction open);

#endif
