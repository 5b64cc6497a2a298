/* Lua texts: compiled, kept and found again. */
#include <lauxlib.h>
#include <stdio.h>

#include "lua/vm/vm.h"

/* Leaves a function, or a message, on L. */
static bool load(lua_State *L, const struct script_code *code)
{
    int result = code->file.len != 0 ? luaL_loadfile(L, code->file.data)
                                     : luaL_loadbuffer(L, code->text.data, code->text.len, code->chunk.data);
    if (result == 0) {
        return true;
    }
    if (code->file.len != 0) {
        lua_pushfstring(L, "failed to load external Lua file \"%s\": %s", code->file.data, lua_tostring(L, -1));
    } else {
        lua_pushfstring(L, "failed to load inlined Lua code: %s", lua_tostring(L, -1));
    }
    lua_remove(L, -2);
    return false;
}

struct str script_code_check(const struct script_code *code, struct arena *arena)
{
    lua_State *L = luaL_newstate();
    struct str message = STR("");

    if (L == NULL) {
        return STR("no memory");
    }
    if (!load(L, code)) {
        message = arena_dup(arena, str_of(lua_tostring(L, -1)));
    }
    lua_close(L);
    return message;
}

bool script_code_push(struct script_vm *vm, lua_State *L, const struct script_code *code)
{
    int reference = vm->functions[code->number];

    if (reference != LUA_NOREF) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, reference);
        return true;
    }
    if (!load(L, code)) {
        return false;
    }
    if (code->is_cached || code->file.len == 0) {
        lua_pushvalue(L, -1);
        vm->functions[code->number] = luaL_ref(L, LUA_REGISTRYINDEX);
    }
    return true;
}
