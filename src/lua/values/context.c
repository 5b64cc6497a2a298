/* ngx.ctx: what library/context.lua asks for. */
#include "lua/values/context.h"

#include "lua/vm/context.h"
#include "lua/vm/function.h"
#include "lua/vm/library.h"

int script_ffi_context(void)
{
    if (script_running() == NULL) {
        return -1;
    }
    int place = script_running()->subject->context;
    return place == LUA_NOREF ? 0 : place;
}

int script_ffi_context_before(void)
{
    struct script_subject *subject = script_running_subject();
    int place = subject != NULL && subject->kind->context_before != NULL
                    ? subject->kind->context_before(subject)
                    : LUA_NOREF;

    return place == LUA_NOREF ? 0 : place;
}

/* The table of the running thread's subject from here on. */
static int set_context(lua_State *L)
{
    lua_settop(L, 1);
    script_context_set(L, script_running()->subject);
    return 0;
}

SCRIPT_TEXT(script_library_context, "src/lua/library/context.lua")

void script_context_add(lua_State *L)
{
    lua_pushcfunction(L, set_context);
    script_contexts_push(L);
    script_text_run(L, "ngx.ctx", SCRIPT_TEXT_OF(script_library_context), 2);
}
