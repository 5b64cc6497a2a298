/* ndk.set_var: the functions that directives such as set_md5 make values with, for Lua. */
#include "http/modules/lua/lua.h"
#include "http/routing/hooks.h"
#include "lua/vm/log.h"
#include "server/generation.h"

#define ARGUMENTS_MAX 2

static const struct http_main *main_of(lua_State *L)
{
    return script_vm_of(L)->options->generation->http;
}

/* Pushes the function's value of the arguments from index `first` on. */
static void compute(lua_State *L, struct request *request, const struct value_function *function,
                    int first)
{
    unsigned count = (unsigned) (lua_gettop(L) - first + 1);
    struct str args[ARGUMENTS_MAX];
    struct str value;

    for (unsigned i = 0; i < count; i++) {
        args[i] = arena_dup(&request->arena, script_check_str(L, first + (int) i));
    }
    if (!function->compute(request, args, count, &value)) {
        luaL_error(L, "calling directive %s failed with code %d: ", function->name, -1);
    }
    script_push_str(L, value);
}

/* Where there is no request, as in a timer, one stands in that has nothing but memory, a log and the settings of the first server. */
static void compute_alone(lua_State *L, const struct script_thread *thread,
                          const struct value_function *function)
{
    const struct vec *servers = &main_of(L)->servers;
    struct request *request;

    for (int i = 1; i <= lua_gettop(L); i++) {
        luaL_checkstring(L, i);
    }
    request = lua_newuserdata(L, sizeof(*request)); /* an anchor below, for as long as this runs */
    lua_insert(L, 1);
    memset(request, 0, sizeof(*request));
    arena_init(&request->arena);
    request->main = request;
    request->log = *script_log_of(thread);
    request->server = *vec_at(servers, struct http_server *, 0);
    request->location = request->server->root;
    compute(L, request, function, 2);
    arena_free(&request->arena);
}

static int call_function(lua_State *L)
{
    const struct value_function *function = lua_touserdata(L, lua_upvalueindex(1));
    const struct script_thread *thread = script_running;
    int count = lua_gettop(L);

    if (count < (int) function->least || count > (int) function->most) {
        return luaL_error(L, "expecting %d arguments but got %d", (int) function->most, count);
    }
    if (thread != NULL && thread->subject->kind == &lua_request_kind) {
        compute(L, lua_running_request(), function, 1);
    } else {
        compute_alone(L, thread, function);
    }
    return 1;
}

static int find_function(lua_State *L)
{
    struct str name = script_check_str(L, 2);
    const struct value_function *function = value_function_find(main_of(L)->hooks, name);

    if (function == NULL || function->most > ARGUMENTS_MAX) {
        return luaL_error(
            L, "ndk.set_var: directive \"%s\" not found or does not use ndk_set_var_value",
            name.data);
    }
    lua_pushlightuserdata(L, (void *) function);
    lua_pushcclosure(L, call_function, 1);
    return 1;
}

static int refuse(lua_State *L)
{
    return luaL_error(L, "not allowed");
}

void lua_ndk_add(lua_State *L)
{
    lua_createtable(L, 0, 1);
    lua_newtable(L);
    lua_createtable(L, 0, 2);
    lua_pushcfunction(L, find_function);
    lua_setfield(L, -2, "__index");
    lua_pushcfunction(L, refuse);
    lua_setfield(L, -2, "__newindex");
    lua_setmetatable(L, -2);
    lua_setfield(L, -2, "set_var");
    lua_setglobal(L, "ndk");
}
