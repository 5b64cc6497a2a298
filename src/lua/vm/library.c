/* Modules in Lua that are built in: compiled when they are required. */
#include "lua/vm/library.h"

#include <lauxlib.h>
#include <string.h>

SCRIPT_TEXT(script_library_properties, "src/lua/library/properties.lua")
SCRIPT_TEXT(script_library_table_new, "src/lua/library/table/new.lua")

SCRIPT_TEXT(script_library_socket, "src/lua/library/socket.lua")
SCRIPT_TEXT(script_library_ngx_ssl, "src/lua/library/ngx/ssl.lua")
SCRIPT_TEXT(script_library_ngx_ssl_clienthello, "src/lua/library/ngx/ssl/clienthello.lua")
SCRIPT_TEXT(script_library_ngx_ssl_session, "src/lua/library/ngx/ssl/session.lua")
SCRIPT_TEXT(script_library_ngx_ssl_proxysslcert, "src/lua/library/ngx/ssl/proxysslcert.lua")
SCRIPT_TEXT(script_library_ngx_ssl_proxysslverify, "src/lua/library/ngx/ssl/proxysslverify.lua")
SCRIPT_TEXT(script_library_ngx_proxyssl, "src/lua/library/ngx/proxyssl.lua")
SCRIPT_TEXT(script_library_ngx_ocsp, "src/lua/library/ngx/ocsp.lua")
SCRIPT_TEXT(script_library_coroutine, "src/lua/library/coroutine.lua")
SCRIPT_TEXT(script_library_ngx_semaphore, "src/lua/library/ngx/semaphore.lua")

static const struct {
    const char *name; /* as in require */
    const char *begin, *end;
} library[] = {
    {"portunus.properties", script_library_properties_begin, script_library_properties_end},
    {"tablepool_placeholder", script_library_table_new_begin, script_library_table_new_end},
    {"ngx.ssl", script_library_ngx_ssl_begin, script_library_ngx_ssl_end},
    {"ngx.ssl.clienthello", script_library_ngx_ssl_clienthello_begin, script_library_ngx_ssl_clienthello_end},
    {"ngx.ssl.session", script_library_ngx_ssl_session_begin, script_library_ngx_ssl_session_end},
    {"ngx.ssl.proxysslcert", script_library_ngx_ssl_proxysslcert_begin, script_library_ngx_ssl_proxysslcert_end},
    {"ngx.ssl.proxysslverify", script_library_ngx_ssl_proxysslverify_begin, script_library_ngx_ssl_proxysslverify_end},
    {"ngx.proxyssl", script_library_ngx_proxyssl_begin, script_library_ngx_proxyssl_end},
    {"ngx.ocsp", script_library_ngx_ocsp_begin, script_library_ngx_ocsp_end},
};

/* Those that somebody above completes with functions of C: script_library_load finds them, require does not. */
static const struct {
    const char *name;
    const char *begin, *end;
} parts[] = {
    {"socket", script_library_socket_begin, script_library_socket_end},
    {"coroutine", script_library_coroutine_begin, script_library_coroutine_end},
    {"ngx.semaphore", script_library_ngx_semaphore_begin, script_library_ngx_semaphore_end},
};

/* Pushes the text as a function. */
static void load(lua_State *L, const char *name, struct str text)
{
    lua_pushfstring(L, "=%s", name);
    if (luaL_loadbuffer(L, text.data, text.len, lua_tostring(L, -1)) != 0) {
        lua_error(L);
    }
    lua_remove(L, -2);
}

void script_library_load(lua_State *L, const char *name)
{
    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strcmp(parts[i].name, name) == 0) {
            load(L, name, str_from(parts[i].begin, parts[i].end));
            return;
        }
    }
    luaL_error(L, "no part of the library is called %s", name);
}

static int open(lua_State *L)
{
    unsigned i = (unsigned) lua_tointeger(L, lua_upvalueindex(1));

    load(L, library[i].name, str_from(library[i].begin, library[i].end));
    lua_pushstring(L, library[i].name);
    lua_call(L, 1, 1);
    return 1;
}

void script_text_run(lua_State *L, const char *name, struct str text, int arguments)
{
    load(L, name, text);
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
