/* Adds to ngx what library/values has. */
#include "lua/values/values.h"

#include <lauxlib.h>

#include "lua/values/ffi.h"
#include "lua/vm/library.h"
#include "lua/vm/thread.h"

void *script_ffi_request(void)
{
    struct script_thread *thread = script_running();

    return thread == NULL || thread->phase == SCRIPT_INIT ? NULL : thread->subject;
}

SCRIPT_TEXT(script_values_text, "src/lua/library/values/text.lua")
SCRIPT_TEXT(script_values_time, "src/lua/library/values/time.lua")
SCRIPT_TEXT(script_values_regex, "src/lua/library/values/regex.lua")

/* Runs a part with the table ngx, which is on top, as its argument. */
static void script_values_run(lua_State *L, const char *name, struct str text)
{
    lua_pushvalue(L, -1);
    script_text_run(L, name, text, 1);
}

void script_values_add(struct script_vm *vm, lua_State *L)
{
    script_values_run(L, "values.text", SCRIPT_TEXT_OF(script_values_text));
    script_values_run(L, "values.time", SCRIPT_TEXT_OF(script_values_time));
    lua_pushvalue(L, -1);
    lua_pushnumber(L, (double) vm->options->regex_cache_max);
    lua_pushnumber(L, (double) vm->options->regex_match_limit);
    script_text_run(L, "values.regex", SCRIPT_TEXT_OF(script_values_regex), 3);
}
