/* Where the tables of ngx.ctx are. */
#include "lua/vm/context.h"

#include <lauxlib.h>

void script_contexts_push(lua_State *L)
{
    static char key;

    lua_pushlightuserdata(L, &key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushlightuserdata(L, &key);
        lua_pushvalue(L, -2);
        lua_rawset(L, LUA_REGISTRYINDEX);
    }
}

void script_context_set(lua_State *L, struct script_subject *subject)
{
    script_contexts_push(L);
    lua_insert(L, -2);
    if (subject->context == LUA_NOREF) {
        subject->context = luaL_ref(L, -2);
    } else {
        lua_rawseti(L, -2, subject->context);
    }
    lua_pop(L, 1);
}

void script_context_release(struct script_vm *vm, int position)
{
    if (position != LUA_NOREF) {
        script_contexts_push(vm->state);
        luaL_unref(vm->state, -1, position);
        lua_pop(vm->state, 1);
    }
}

void script_context_drop(struct script_subject *subject)
{
    if (subject->context != LUA_NOREF) {
        log_debug(subject->log, 0, "lua release ngx.ctx at ref %d", subject->context);
    }
    script_context_release(subject->vm, subject->context);
    subject->context = LUA_NOREF;
}
