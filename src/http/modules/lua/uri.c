/* The URI of a request and its arguments: ngx.req.set_uri, set_uri_args, get_uri_args. */
#include "http/modules/lua/ffi.h"
#include "http/modules/lua/lua.h"
#include "lua/values/args.h"
#include "lua/vm/context.h"

int http_lua_ffi_uri_args(const char **out)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    return result == LUA_FFI_OK ? http_lua_ffi_give(request->args, out) : result;
}

void http_lua_check_bytes(lua_State *L, struct str text, const char *what, const char *hint)
{
    struct str shown;

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];

        if ((c >= 32 && c != 127) || c == '\t') {
            continue;
        }
        shown.len = escape_length(text, ESCAPE_LOG);
        char *room = lua_newuserdata(L, shown.len + 1);
        *escape_write(room, text, ESCAPE_LOG) = '\0';
        luaL_where(L, 1);
        lua_pushfstring(L, "unsafe byte \"0x%c%c\" in %s \"%s\"%s", "0123456789abcdef"[c >> 4],
                        "0123456789abcdef"[c & 15], what, room, hint);
        lua_concat(L, 2);
        lua_error(L);
    }
}

/* The optional argument that is a boolean. */
static bool check_flag(lua_State *L, int index)
{
    if (lua_isnoneornil(L, index)) {
        return false;
    }
    luaL_checktype(L, index, LUA_TBOOLEAN);
    return lua_toboolean(L, index);
}

/* ngx.req.set_uri(uri, jumps, is_binary). To jump is to search a location for the new URI once this
 * Lua has ended, which is now. */
static int set_uri(lua_State *L, struct script_thread *thread)
{
    struct request *request = http_lua_demand(L, thread, SCRIPT_OF_REQUEST);
    int count = lua_gettop(L);

    if (count < 1 || count > 3) {
        return luaL_error(L, "expecting 1, 2 or 3 arguments but seen %d", count);
    }
    struct str uri = script_check_str(L, 1);
    if (uri.len == 0) {
        return luaL_error(L, "attempt to use zero-length uri");
    }
    if (!check_flag(L, 3)) {
        http_lua_check_bytes(L, uri, "uri", " (maybe you want to set the 'binary' argument?)");
    }
    if (count >= 2) {
        luaL_checktype(L, 2, LUA_TBOOLEAN);
    }
    bool jumps = lua_toboolean(L, 2);
    if (jumps) {
        script_demand(L, thread, SCRIPT_REWRITE | SCRIPT_SERVER_REWRITE);
        script_demand_abortable(L, thread);
    }
    request_set_uri(request, arena_dup(&request->arena, uri), request->args);
    request->is_internal = true; /* so it is escaped where it is passed on */
    if (!jumps) {
        request->uri_state = request->uri_state == URI_MOVED ? URI_MOVED : URI_REWRITTEN;
        return 0;
    }
    request->uri_state = URI_MOVED;
    script_context_drop(thread->subject);
    http_lua_decide(L, thread, HANDLER_NEXT);
}

/* Pushes the arguments that a table, a text or a number at an index gives. */
void http_lua_push_args(lua_State *L, int index)
{
    switch (lua_type(L, index)) {
    case LUA_TNUMBER:
    case LUA_TSTRING: {
        struct str text = script_check_str(L, index);
        char *room = lua_newuserdata(L, escape_length(text, ESCAPE_QUERY) + 1);
        lua_pushlstring(L, room, (size_t) (escape_write(room, text, ESCAPE_QUERY) - room));
        lua_remove(L, -2);
        return;
    }
    case LUA_TTABLE:
        script_args_write(L, index);
        return;
    default:
        lua_pushfstring(L, "string, number, or table expected, but got %s",
                        luaL_typename(L, index));
        luaL_argerror(L, index, lua_tostring(L, -1));
    }
}

static int set_uri_args(lua_State *L, struct script_thread *thread)
{
    struct request *request = http_lua_demand(L, thread, SCRIPT_OF_REQUEST);

    if (lua_gettop(L) != 1) {
        return luaL_error(L, "expecting 1 argument but seen %d", lua_gettop(L));
    }
    http_lua_push_args(L, 1);
    request_set_uri(request, request->uri, arena_dup(&request->arena, script_check_str(L, -1)));
    return 0;
}

static const struct script_row rows[] = {
    {"req.set_uri", set_uri, 0, false},
    {"req.set_uri_args", set_uri_args, 0, false},
    {0},
};

void http_lua_uri_add(lua_State *L)
{
    script_add(L, rows);
}
