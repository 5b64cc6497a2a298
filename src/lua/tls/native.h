/* What of ngx.ssl is in C, for the modules in Lua: the module script.tls. */
#ifndef LUA_TLS_NATIVE_H
#define LUA_TLS_NATIVE_H

#include <lua.h>

/* Puts it into package.preload. */
void script_tls_add(lua_State *L);

/* Adds the functions of ngx.ocsp to the table on top (ocsp.c). */
void script_ocsp_add(lua_State *L);

#endif
