/* ngx.var: the variables of a request. */
#include "conf/template.h"
#include "http/modules/lua/ffi.h"
#include "http/modules/lua/lua.h"

/* $1 and so on, of the last regular expression: up to the last that took part in the match. */
int lua_ffi_capture(int number, struct str *out)
{
    struct request *request;
    int result = lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    if (result != LUA_FFI_OK) {
        return result;
    }
    const struct str *captures = request->env.captures;
    unsigned count = request->env.capture_count;

    while (count > 0 && captures[count - 1].data == NULL) {
        count--;
    }
    if (number <= 0 || (unsigned) number >= count) {
        return LUA_FFI_NONE;
    }
    *out = captures[number];
    return LUA_FFI_OK;
}

int lua_ffi_variable(const char *name, size_t len, struct str *out)
{
    struct request *request;
    int result = lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    if (result != LUA_FFI_OK) {
        return result;
    }
    return variable_get_by_name(&request->env, (struct str){name, len}, out) ? LUA_FFI_OK
                                                                             : LUA_FFI_NONE;
}

int lua_variable_set(struct request *request, struct str name, struct str value)
{
    const struct variable *variable = map_get_nocase(&request->env.set->by_name, name);

    if (variable == NULL || (variable->flags & VARIABLE_WEAK) != 0) {
        return LUA_FFI_NONE;
    }
    if ((variable->flags & VARIABLE_CHANGEABLE) == 0) {
        return LUA_FFI_FIXED;
    }
    if (value.data == NULL) {
        variable_clear(&request->env, variable);
    } else {
        variable_assign(&request->env, variable, arena_dup(request->env.arena, value));
    }
    return LUA_FFI_OK;
}

int lua_ffi_variable_set(const char *name, size_t len, const char *value, size_t value_len)
{
    struct request *request;
    int result = lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    if (result != LUA_FFI_OK) {
        return result;
    }
    return lua_variable_set(request, (struct str){name, len}, (struct str){value, value_len});
}
