/* ngx.ctx: where its tables are; what asks for them is library/context.lua. */
#include "lua/vm/context.h"

#include "lua/vm/function.h"
#include "lua/vm/library.h"

int script_ffi_context(void)
{
    if (script_running == NULL) {
        return -1;
    }
    int place = script_running->subject->context;
    return place == LUA_NOREF ? 0 : place;
}

/* Pushes the list of them all. */
static void push_contexts(lua_State *L)
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
    push_contexts(L);
    lua_insert(L, -2);
    if (subject->context == LUA_NOREF) {
        subject->context = luaL_ref(L, -2);
    } else {
        lua_rawseti(L, -2, subject->context);
    }
    lua_pop(L, 1);
}

void script_context_drop(struct script_subject *subject)
{
    lua_State *L = subject->vm->state;

    if (subject->context == LUA_NOREF) {
        return;
    }
    log_debug(subject->log, 0, "lua release ngx.ctx at ref %d", subject->context);
    push_contexts(L);
    luaL_unref(L, -1, subject->context);
    lua_pop(L, 1);
    subject->context = LUA_NOREF;
}

/* The table of the running thread's subject from here on. */
static int set_context(lua_State *L)
{
    lua_settop(L, 1);
    script_context_set(L, script_running->subject);
    return 0;
}

SCRIPT_TEXT(script_library_context, "src/lua/library/context.lua")

void script_context_add(lua_State *L)
{
    lua_pushcfunction(L, set_context);
    push_contexts(L);
    script_text_run(L, "ngx.ctx", SCRIPT_TEXT_OF(script_library_context), 2);
}
