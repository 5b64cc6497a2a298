/* Modules in Lua that are built in: their texts are taken in by the assembler, and compiled when they are required. */
#include "lua/vm/library.h"

#include <lauxlib.h>
#include <string.h>

/*
 * The files of src/lua/library, a line each: a name in C, the file, and the module that require finds there, or NULL for a part
 * that script_library_push gives.
 */
#define LIBRARY(FILE)                                                                              \
    FILE(text, "values/text.lua", NULL)                                                            \
    FILE(time, "values/time.lua", NULL)                                                            \
    FILE(regex, "values/regex.lua", NULL)                                                          \
    FILE(dict, "dict/dict.lua", NULL)                                                              \
    FILE(core, "resty/core.lua", "resty.core")                                                     \
    FILE(core_base, "resty/core/base.lua", "resty.core.base")                                      \
    FILE(core_time, "resty/core/time.lua", "resty.core.time")                                      \
    FILE(core_utils, "resty/core/utils.lua", "resty.core.utils")                                   \
    FILE(core_part, "resty/core/part.lua", NULL)                                                   \
    FILE(tablepool, "tablepool.lua", "tablepool")                                                  \
    FILE(table_more, "table/more.lua", NULL)

/* Modules of lua-resty-core of which scripts ask no more than that they are there. */
static const char *const parts_of_core[] = {
    "base64", "coroutine", "ctx",      "exit",   "hash",   "misc", "ndk", "param",
    "phase",  "request",   "response", "shdict", "socket", "uri",  "var", "worker",
};

/* The text of a file, as script_library_NAME and script_library_NAME_end. */
#define TAKE_IN(name, file, module)                                                                \
    extern const char script_library_##name[], script_library_##name##_end[];                      \
    __asm__(".pushsection .rodata\n"                                                               \
            ".global script_library_" #name "\nscript_library_" #name ":\n"                        \
            ".incbin \"src/lua/library/" file "\"\n"                                               \
            ".global script_library_" #name "_end\nscript_library_" #name "_end:\n"                \
            ".byte 0\n"                                                                            \
            ".popsection\n");
LIBRARY(TAKE_IN)

#define ROW(name, file, module) {file, module, script_library_##name, script_library_##name##_end},

static const struct library_file {
    const char *file;
    const char *module; /* as in require; or NULL */
    const char *begin, *end;
} library[] = {LIBRARY(ROW)};

enum { LIBRARY_COUNT = sizeof(library) / sizeof(library[0]) };

/* Pushes the function of a file. */
static void push(lua_State *L, const struct library_file *file)
{
    lua_pushfstring(L, "=%s", file->file);
    if (luaL_loadbuffer(L, file->begin, (size_t) (file->end - file->begin), lua_tostring(L, -1)) != 0) {
        lua_error(L);
    }
    lua_remove(L, -2);
}

void script_library_push(lua_State *L, const char *file)
{
    for (unsigned i = 0; i < LIBRARY_COUNT; i++) {
        if (strcmp(library[i].file, file) == 0) {
            push(L, &library[i]);
            return;
        }
    }
    luaL_error(L, "no \"%s\" is built in", file);
}

static int open(lua_State *L)
{
    const struct library_file *file = lua_touserdata(L, lua_upvalueindex(1));

    push(L, file);
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static int open_part(lua_State *L)
{
    script_library_push(L, "resty/core/part.lua");
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

void script_library_add(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    for (unsigned i = 0; i < LIBRARY_COUNT; i++) {
        if (library[i].module != NULL) {
            lua_pushlightuserdata(L, (void *) &library[i]);
            lua_pushcclosure(L, open, 1);
            lua_setfield(L, -2, library[i].module);
        }
    }
    for (size_t i = 0; i < sizeof(parts_of_core) / sizeof(parts_of_core[0]); i++) {
        lua_pushfstring(L, "resty.core.%s", parts_of_core[i]);
        lua_pushcfunction(L, open_part);
        lua_settable(L, -3);
    }
    lua_pop(L, 2);
    script_library_push(L, "table/more.lua");
    lua_call(L, 0, 0);
}
