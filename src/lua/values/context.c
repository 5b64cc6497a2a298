/* ngx.ctx: where its tables are; what asks for them is library/context.lua. */
#include "lua/values/context.h"

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

static int set_context(lua_State *L)
{
    struct script_subject *subject = script_running->subject;

    lua_settop(L, 1);
    if (subject->context == LUA_NOREF) {
        subject->context = luaL_ref(L, LUA_REGISTRYINDEX);
    } else {
        lua_rawseti(L, LUA_REGISTRYINDEX, subject->context);
    }
    return 0;
}

void script_context_drop(struct script_subject *subject)
{
    luaL_unref(subject->vm->state, LUA_REGISTRYINDEX, subject->context);
    subject->context = LUA_NOREF;
}

SCRIPT_TEXT(script_library_context, "src/lua/library/context.lua")

void script_context_add(lua_State *L)
{
    lua_pushcfunction(L, set_context);
    lua_pushvalue(L, LUA_REGISTRYINDEX);
    script_text_run(L, "ngx.ctx", SCRIPT_TEXT_OF(script_library_context), 2);
}
