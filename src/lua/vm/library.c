/* Modules in Lua that are built in: their texts are taken in by the assembler, and compiled when they are required. */
#include "lua/vm/library.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

/*
 * The files of src/lua/library, a line each: a name in C, its kind, its name in Lua, and the file. A MODULE is what require finds; a
 * PART is completed by somebody above with functions of C, and only script_library_load finds it.
 */
#define LIBRARY(FILE)                                                                              \
    FILE(properties, MODULE, "portunus.properties", "properties.lua")                              \
    FILE(core, MODULE, "resty.core", "resty/core.lua")                                             \
    FILE(core_base, MODULE, "resty.core.base", "resty/core/base.lua")                              \
    FILE(core_time, MODULE, "resty.core.time", "resty/core/time.lua")                              \
    FILE(core_utils, MODULE, "resty.core.utils", "resty/core/utils.lua")                           \
    FILE(tablepool, MODULE, "tablepool", "tablepool.lua")                                          \
    FILE(ngx_ssl, MODULE, "ngx.ssl", "ngx/ssl.lua")                                                \
    FILE(clienthello, MODULE, "ngx.ssl.clienthello", "ngx/ssl/clienthello.lua")                    \
    FILE(session, MODULE, "ngx.ssl.session", "ngx/ssl/session.lua")                                \
    FILE(proxysslcert, MODULE, "ngx.ssl.proxysslcert", "ngx/ssl/proxysslcert.lua")                 \
    FILE(proxysslverify, MODULE, "ngx.ssl.proxysslverify", "ngx/ssl/proxysslverify.lua")           \
    FILE(proxyssl, MODULE, "ngx.proxyssl", "ngx/proxyssl.lua")                                     \
    FILE(ocsp, MODULE, "ngx.ocsp", "ngx/ocsp.lua")                                                 \
    FILE(text, PART, "values.text", "values/text.lua")                                             \
    FILE(time, PART, "values.time", "values/time.lua")                                             \
    FILE(regex, PART, "values.regex", "values/regex.lua")                                          \
    FILE(dict, PART, "dict.dict", "dict/dict.lua")                                                 \
    FILE(table_more, PART, "table.more", "table/more.lua")                                         \
    FILE(core_part, PART, "resty.core.part", "resty/core/part.lua")

/* Modules of lua-resty-core of which scripts ask no more than that they are there. */
static const char *const parts_of_core[] = {
    "base64", "coroutine", "ctx",      "exit",   "hash",   "misc", "ndk", "param",
    "phase",  "request",   "response", "shdict", "socket", "uri",  "var", "worker",
};

#define TAKE_IN(id, kind, name, file) SCRIPT_TEXT(script_library_##id, "src/lua/library/" file)
LIBRARY(TAKE_IN)

enum library_kind { MODULE, PART };

#define ROW(id, kind, name, file)                                                                  \
    {name, kind, script_library_##id##_begin, script_library_##id##_end},

static const struct library_file {
    const char *name;
    enum library_kind kind;
    const char *begin, *end;
} library[] = {LIBRARY(ROW)};

enum { LIBRARY_COUNT = sizeof(library) / sizeof(library[0]) };

void script_text_load(lua_State *L, const char *name, struct str text)
{
    lua_pushfstring(L, "=%s", name);
    if (luaL_loadbuffer(L, text.data, text.len, lua_tostring(L, -1)) != 0) {
        lua_error(L);
    }
    lua_remove(L, -2);
}

void script_text_run(lua_State *L, const char *name, struct str text, int arguments)
{
    script_text_load(L, name, text);
    lua_insert(L, -1 - arguments);
    lua_call(L, arguments, 0);
}

/* Pushes the function of a file. */
static void load(lua_State *L, const struct library_file *file)
{
    script_text_load(L, file->name, str_from(file->begin, file->end));
}

void script_library_load(lua_State *L, const char *name)
{
    for (unsigned i = 0; i < LIBRARY_COUNT; i++) {
        if (library[i].kind == PART && strcmp(library[i].name, name) == 0) {
            load(L, &library[i]);
            return;
        }
    }
    luaL_error(L, "no part of the library is called %s", name);
}

static int open(lua_State *L)
{
    load(L, lua_touserdata(L, lua_upvalueindex(1)));
    lua_pushvalue(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static int open_part_of_core(lua_State *L)
{
    script_library_load(L, "resty.core.part");
    lua_call(L, 0, 1);
    return 1;
}

void script_library_add(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    for (unsigned i = 0; i < LIBRARY_COUNT; i++) {
        if (library[i].kind == MODULE) {
            lua_pushlightuserdata(L, (void *) &library[i]);
            lua_pushcclosure(L, open, 1);
            lua_setfield(L, -2, library[i].name);
        }
    }
    for (size_t i = 0; i < sizeof(parts_of_core) / sizeof(parts_of_core[0]); i++) {
        lua_pushfstring(L, "resty.core.%s", parts_of_core[i]);
        lua_pushcfunction(L, open_part_of_core);
        lua_settable(L, -3);
    }
    lua_pop(L, 2);
    script_library_load(L, "table.more");
    lua_call(L, 0, 0);
}
