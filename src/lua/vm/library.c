/* Modules in Lua that are built in: compiled when they are required. */
#include "lua/vm/library.h"

#include <lauxlib.h>

/* The modules, a line each: a name in C, the file in src/lua/library, and what require calls it. */
#define LIBRARY(MODULE)                                                                            \
    MODULE(properties, "properties.lua", "portunus.properties")                                    \
    MODULE(ngx_ssl, "ngx/ssl.lua", "ngx.ssl")                                                      \
    MODULE(ngx_ssl_clienthello, "ngx/ssl/clienthello.lua", "ngx.ssl.clienthello")                  \
    MODULE(ngx_ssl_session, "ngx/ssl/session.lua", "ngx.ssl.session")                              \
    MODULE(ngx_ssl_proxysslcert, "ngx/ssl/proxysslcert.lua", "ngx.ssl.proxysslcert")               \
    MODULE(ngx_ssl_proxysslverify, "ngx/ssl/proxysslverify.lua", "ngx.ssl.proxysslverify")         \
    MODULE(ngx_proxyssl, "ngx/proxyssl.lua", "ngx.proxyssl")                                       \
    MODULE(ngx_ocsp, "ngx/ocsp.lua", "ngx.ocsp")

#define TAKE_IN(name, file, module) SCRIPT_TEXT(script_library_##name, "src/lua/library/" file)
LIBRARY(TAKE_IN)

#define ROW(name, file, module) {module, script_library_##name##_begin, script_library_##name##_end},

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

static int open(lua_State *L)
{
    unsigned i = (unsigned) lua_tointeger(L, lua_upvalueindex(1));

    script_text_load(L, library[i].name, str_from(library[i].begin, library[i].end));
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
