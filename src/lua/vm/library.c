/* Modules in Lua that are built in: compiled when they are required. */
#include "lua/vm/library.h"

#include <lauxlib.h>

SCRIPT_TEXT(script_library_properties, "src/lua/library/properties.lua")
SCRIPT_TEXT(script_library_table_new, "src/lua/library/table/new.lua")

static const struct {
    const char *name; /* as in require */
    const char *begin, *end;
} library[] = {
    {"portunus.properties", script_library_properties_begin, script_library_properties_end},
    {"tablepool_placeholder", script_library_table_new_begin, script_library_table_new_end},
};

void script_text_load(lua_State *L, const char *name, struct str text)
{
    lua_pushfstring(L, "=%s", name);
    if (luaL_loadbuffer(L, text.data, text.len, lua_tostring(L, -1)) != 0) {
        lua_error(L);
    }
    lua_remove(L, -2);
}

static int open(lua_State *L)
{
    unsigned i = (unsigned) lua_tointeger(L, lua_upvalueindex(1));

    script_text_load(L, library[i].name, str_from(library[i].begin, library[i].end));
    lua_pushstring(L, library[i].name);
    lua_call(L, 1, 1);
    return 1;
}

void script_text_run(lua_State *L, const char *name, struct str text, int arguments)
{
    script_text_load(L, name, text);
    lua_insert(L, -1 - arguments);
    lua_call(L, arguments, 0);
}

void script_library_add(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    for (unsigned i = 0; i < sizeof(library) / sizeof(library[0]); i++) {
        lua_pushinteger(L, i);
        lua_pushcclosure(L, open, 1);
        lua_setfield(L, -2, library[i].name);
    }
    lua_pop(L, 2);
}
