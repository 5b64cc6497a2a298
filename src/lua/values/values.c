/* Adds to ngx what library/values has. */
#include "lua/values/values.h"

#include <lauxlib.h>

#include "lua/values/ffi.h"
#include "lua/vm/library.h"
#include "lua/vm/thread.h"

void *script_ffi_request(void)
{
    struct script_thread *thread = script_running;

    return thread == NULL || thread->phase == SCRIPT_INIT ? NULL : thread->subject;
}

void script_values_add(struct script_vm *vm, lua_State *L)
{
    static const char *const parts[] = {"values.text", "values.time", "values.regex"};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        script_library_load(L, parts[i]);
        lua_pushvalue(L, -2);
        lua_pushnumber(L, (double) vm->options->regex_cache_max);
        lua_pushnumber(L, (double) vm->options->regex_match_limit);
        lua_call(L, 3, 0);
    }
}
