/* ngx.shared: a table with an object for each dictionary; library/dict/dict.lua has their methods. */
#include "lua/dict/lua.h"

#include "lua/dict/dict.h"
#include "lua/vm/function.h"
#include "lua/vm/library.h"

SCRIPT_TEXT(script_dict_text, "src/lua/library/dict/dict.lua")

void script_dict_add(struct script_vm *vm, lua_State *L)
{
    script_text_load(L, "dict.dict", SCRIPT_TEXT_OF(script_dict_text));
    lua_newtable(L);
    for (struct script_dict *dict = vm->options->dicts; dict != NULL; dict = dict->next) {
        script_push_str(L, dict->name);
        lua_pushlightuserdata(L, dict);
        lua_rawset(L, -3);
    }
    lua_call(L, 1, 1);
    lua_setfield(L, -2, "shared");
}
