/* The part of this module that is written in Lua. */
#include "lua/vm/library.h"

#include "http/modules/lua/ffi.h"
#include "http/modules/lua/lua.h"

SCRIPT_TEXT(http_lua_library_request, "src/http/modules/lua/request.lua")

void http_lua_library_add(lua_State *L)
{
    script_text_run(L, "ngx.request", SCRIPT_TEXT_OF(http_lua_library_request), 0);
}
