/* ngx.shared: a table with an object for each dictionary; library/dict/dict.lua has their methods. */
#include "lua/dict/lua.h"

#include "lua/dict/dict.h"
#include "lua/vm/function.h"
#include "lua/vm/library.h"
#include "lua/vm/names.h"
#include "lua/vm/thread.h"

/* The dictionary for what an object of ngx.shared has at 1; NULL: there is none. */
static void *udata_to_zone(void *udata)
{
    const struct script_subject *subject = script_running_subject();
    struct script_dict *dict = subject != NULL ? subject->vm->options->dicts : NULL;

    while (dict != NULL && dict != udata) {
        dict = dict->next;
    }
    return dict;
}
SCRIPT_FFI_NAME(udata_to_zone, shdict_udata_to_zone);

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
