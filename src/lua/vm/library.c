/* Modules in Lua that are built in: their texts are taken in by the assembler, and compiled when they are required. */
#include "lua/vm/library.h"

#include <lauxlib.h>
#include <string.h>

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
TEXT(script_library_ngx_ssl, "ngx/ssl.lua")
TEXT(script_library_ngx_ssl_clienthello, "ngx/ssl/clienthello.lua")
TEXT(script_library_ngx_ssl_session, "ngx/ssl/session.lua")
TEXT(script_library_ngx_ssl_proxysslcert, "ngx/ssl/proxysslcert.lua")
TEXT(script_library_ngx_ssl_proxysslverify, "ngx/ssl/proxysslverify.lua")
TEXT(script_library_ngx_proxyssl, "ngx/proxyssl.lua")
TEXT(script_library_ngx_ocsp, "ngx/ocsp.lua")
TEXT(script_library_coroutine, "coroutine.lua")
TEXT(script_library_ngx_semaphore, "ngx/semaphore.lua")

static const struct {
    const char *name; /* as in require */
    const char *begin, *end;
} library[] = {
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

static void load(lua_State *L, const char *name, const char *begin, const char *end)
{
    lua_pushfstring(L, "=%s", name);
    if (luaL_loadbuffer(L, begin, (size_t) (end - begin), lua_tostring(L, -1)) != 0) {
        lua_error(L);
    }
    lua_remove(L, -2);
}

void script_library_load(lua_State *L, const char *name)
{
    for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (strcmp(parts[i].name, name) == 0) {
            load(L, name, parts[i].begin, parts[i].end);
            return;
        }
    }
    luaL_error(L, "no part of the library is called %s", name);
}

static int open(lua_State *L)
{
    unsigned i = (unsigned) lua_tointeger(L, lua_upvalueindex(1));

    load(L, library[i].name, library[i].begin, library[i].end);
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
