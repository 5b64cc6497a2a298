/* ngx.on_abort. */
#include "lua/tasks/abort.h"

#include "lua/vm/function.h"
#include "lua/vm/settings.h"

void script_abort_begin(struct script_abort *abort)
{
    abort->entry = NULL;
    abort->callback = LUA_NOREF;
}

void script_abort_end(struct script_abort *abort, struct script_subject *subject)
{
    luaL_unref(subject->vm->state, LUA_REGISTRYINDEX, abort->callback);
    abort->callback = LUA_NOREF;
}

bool script_abort_tell(struct script_abort *abort, struct script_subject *subject)
{
    lua_State *L = subject->vm->state;

    if (abort->callback == LUA_NOREF || abort->entry == NULL) {
        return false;
    }
    lua_rawgeti(L, LUA_REGISTRYINDEX, abort->callback);
    script_abort_end(abort, subject);
    bool is_started = script_spawn(abort->entry, L, 0) != NULL;
    lua_pop(L, 1); /* its coroutine, or why there is none, which was logged */
    return is_started;
}

int script_on_abort(lua_State *L, struct script_thread *thread, struct script_abort *abort,
                    uint32_t phases)
{
    if (!thread->subject->settings->check_client_abort) {
        return script_fail(L, "lua_check_client_abort is off");
    }
    script_demand(L, thread, phases);
    if (abort->entry != NULL) {
        return script_fail(L, "duplicate call");
    }
    luaL_argcheck(L, lua_isfunction(L, 1) && !lua_iscfunction(L, 1), 1, "Lua function expected");
    lua_settop(L, 1);
    abort->callback = luaL_ref(L, LUA_REGISTRYINDEX);
    abort->entry = thread->entry;
    lua_pushinteger(L, 1);
    return 1;
}
