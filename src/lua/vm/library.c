/* Modules in Lua that are built in: their texts are taken in by the assembler, and compiled when they are required. */
#include "lua/vm/library.h"

#include <lauxlib.h>

#include "base/str.h"

/* The text of src/lua/library/FILE, as NAME_begin and NAME_end. */
#define TEXT(name, file)                                                                           \
    extern const char name##_begin[], name##_end[];                                                \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global " #name "_begin\n" #name "_begin:\n"                                          \
            ".incbin \"src/lua/library/" file "\"\n"                                               \
            ".global " #name "_end\n" #name "_end:\n"                                              \
            ".byte 0\n"                                                                            \
            ".popsection\n");

TEXT(script_library_table_new, "table/new.lua")
TEXT(script_library_socket, "socket.lua")

static const struct {
    const char *name; /* as in require */
    const char *begin, *end;
} library[] = {
    {"tablepool_placeholder", script_library_table_new_begin, script_library_table_new_end},
    {"portunus.socket", script_library_socket_begin, script_library_socket_end},
};

static int open(lua_State *L)
{
    unsigned i = (unsigned) lua_tointeger(L, lua_upvalueindex(1));

    lua_pushfstring(L, "=%s", library[i].name);
    if (luaL_loadbuffer(L, library[i].begin, (size_t) (library[i].end - library[i].begin), lua_tostring(L, -1)) != 0) {
        return lua_error(L);
    }
    lua_pushstring(L, library[i].name);
    lua_call(L, 1, 1);
    return 1;
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
