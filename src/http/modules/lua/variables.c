/* The variables of a request, as other files of this module assign them. */
#include "lua/values/variables.h"

#include "http/modules/lua/lua.h"

int http_lua_variable_set(struct request *request, struct str name, struct str value)
{
    return script_variable_set(&request->env, name, value);
}
