/* ngx.ctx: what library/context.lua asks for. */
#include "lua/values/context.h"

#include "lua/vm/context.h"
#include "lua/vm/function.h"
#include "lua/vm/library.h"
#include "lua/vm/names.h"

int script_ffi_context(void)
{
    if (script_running() == NULL) {
        return -1;
    }
    if (script_running()->phase == SCRIPT_INIT) {
        return -2;
    }
    int position = script_running()->subject->context;
    return position == LUA_NOREF ? 0 : position;
}

int script_ffi_context_before(void)
{
    struct script_subject *subject = script_running_subject();
    int position = subject != NULL && subject->kind->context_before != NULL
                       ? subject->kind->context_before(subject)
                       : LUA_NOREF;

    return position == LUA_NOREF ? 0 : position;
}

/* The table of the running thread's subject from here on. */
static int set_context(lua_State *L)
{
    lua_settop(L, 1);
    script_context_set(L, script_running()->subject);
    return 0;
}

#define NO_REQUEST_CONTEXT (-100) /* what OpenResty's function gives where nobody can have one */

/*
 * The place of ngx.ctx in the table ngx_lua_ctx_tables of the registry, for FFI code of users;
 * LUA_NOREF: it has none yet. Scripts in handshakes have theirs with the connection.
 */
static int context_reference(void *r, int *is_in_handshake, int *of_handshake)
{
    const struct script_subject *subject = script_running_subject();

    if (r == NULL || subject == NULL) {
        return NO_REQUEST_CONTEXT;
    }
    if (is_in_handshake != NULL) {
        *is_in_handshake = script_runs_in(SCRIPT_CLIENT_HELLO | SCRIPT_CERTIFICATE |
                                          SCRIPT_SESSION_FETCH | SCRIPT_SESSION_STORE);
    }
    if (of_handshake != NULL) {
        *of_handshake = LUA_NOREF;
    }
    return subject->context;
}
SCRIPT_FFI_NAME(context_reference, get_ctx_ref);

SCRIPT_TEXT(script_library_context, "src/lua/library/context.lua")

void script_context_add(lua_State *L)
{
    script_contexts_push(L);
    lua_setfield(L, LUA_REGISTRYINDEX, "ngx_lua_ctx_tables"); /* libraries look there */
    lua_pushcfunction(L, set_context);
    script_contexts_push(L);
    script_text_run(L, "ngx.ctx", SCRIPT_TEXT_OF(script_library_context), 2);
}
