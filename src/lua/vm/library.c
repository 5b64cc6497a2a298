/* Modules in Lua that are built in: compiled when they are required. */
#include "lua/vm/library.h"

#include <lauxlib.h>

/* The modules, a line each: a name in C, the file in src/lua/library, and what require calls it. */
#define LIBRARY(MODULE)                                                                            \
    MODULE(properties, "properties.lua", "portunus.properties")                                    \
    MODULE(results, "results.lua", "portunus.results")                                             \
    MODULE(pointer, "pointer.lua", "portunus.pointer")                                             \
    MODULE(buffer, "buffer.lua", "portunus.buffer")                                                \
    MODULE(core, "resty/core.lua", "resty.core")                                                   \
    MODULE(core_base, "resty/core/base.lua", "resty.core.base")                                    \
    MODULE(core_time, "resty/core/time.lua", "resty.core.time")                                    \
    MODULE(core_utils, "resty/core/utils.lua", "resty.core.utils")                                 \
    MODULE(tablepool, "tablepool.lua", "tablepool")                                                \
    MODULE(ngx_errlog, "process/errlog.lua", "ngx.errlog")                                         \
    MODULE(ngx_ssl, "ngx/ssl.lua", "ngx.ssl")                                                      \
    MODULE(ngx_ssl_clienthello, "ngx/ssl/clienthello.lua", "ngx.ssl.clienthello")                  \
    MODULE(ngx_ssl_session, "ngx/ssl/session.lua", "ngx.ssl.session")                              \
    MODULE(ngx_ssl_proxysslcert, "ngx/ssl/proxysslcert.lua", "ngx.ssl.proxysslcert")               \
    MODULE(ngx_ssl_proxysslverify, "ngx/ssl/proxysslverify.lua", "ngx.ssl.proxysslverify")         \
    MODULE(ngx_proxyssl, "ngx/proxyssl.lua", "ngx.proxyssl")                                       \
    MODULE(ngx_ocsp, "ngx/ocsp.lua", "ngx.ocsp")

/* Modules of lua-resty-core of which scripts ask no more than that they are there: what they add to
 * ngx is built in. */
static const char *const parts_of_core[] = {
    "base64", "coroutine", "ctx",      "exit",   "hash",   "misc", "ndk", "param",
    "phase",  "request",   "response", "shdict", "socket", "uri",  "var", "worker",
};

SCRIPT_TEXT(script_library_core_part, "src/lua/library/resty/core/part.lua")
SCRIPT_TEXT(script_library_table, "src/lua/library/table/more.lua")

#define TAKE_IN(name, file, module) SCRIPT_TEXT(script_library_##name, "src/lua/library/" file)
LIBRARY(TAKE_IN)

#define ROW(name, file, module)                                                                    \
    {module, script_library_##name##_begin, script_library_##name##_end},

static const struct {
    const char *name; /* as in require */
    const char *begin, *end;
} library[] = {LIBRARY(ROW)};

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

static int script_library_open(lua_State *L)
{
    unsigned i = (unsigned) lua_tointeger(L, lua_upvalueindex(1));

    script_text_load(L, library[i].name, str_from(library[i].begin, library[i].end));
    lua_pushstring(L, library[i].name);
    lua_call(L, 1, 1);
    return 1;
}

static int open_part_of_core(lua_State *L)
{
    script_text_load(L, "resty.core", SCRIPT_TEXT_OF(script_library_core_part));
    lua_call(L, 0, 1);
    return 1;
}

void script_library_add(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    for (unsigned i = 0; i < sizeof(library) / sizeof(library[0]); i++) {
        lua_pushinteger(L, i);
        lua_pushcclosure(L, script_library_open, 1);
        lua_setfield(L, -2, library[i].name);
    }
    for (size_t i = 0; i < sizeof(parts_of_core) / sizeof(parts_of_core[0]); i++) {
        lua_pushfstring(L, "resty.core.%s", parts_of_core[i]);
        lua_pushcfunction(L, open_part_of_core);
        lua_settable(L, -3);
    }
    lua_pop(L, 2);
    script_text_run(L, "table", SCRIPT_TEXT_OF(script_library_table), 0);
}
