/* ndk.set_var: the functions that directives such as set_md5 make values with. */
#include "http/modules/lua/ffi.h"
#include "http/modules/lua/lua.h"
#include "http/routing/hooks.h"
#include "lua/vm/log.h"
#include "server/generation.h"

static const struct http_main *main_of(const struct script_thread *thread)
{
    return thread->subject->vm->options->generation->http;
}

const struct value_function *http_lua_ffi_value_function(const char *name, size_t len, int *least,
                                                         int *most)
{
    const struct value_function *function;

    if (script_running() == NULL) {
        return NULL;
    }
    function = value_function_find(main_of(script_running())->hooks, (struct str){name, len});
    if (function != NULL) {
        *least = (int) function->least;
        *most = (int) function->most;
    }
    return function;
}

/*
 * Where there is no request, as in a timer, one stands in that has nothing but memory, a log and
 * the settings of the first server. What was computed for it lives until it stands in again.
 */
static struct request *stand_in(void)
{
    static struct request request;
    const struct vec *servers = &main_of(script_running())->servers;

    arena_free(&request.arena);
    request = (struct request){.magic = REQUEST_MAGIC};
    arena_init(&request.arena);
    request.main = &request;
    request.log = *script_log_of(script_running());
    request.server = *vec_at(servers, struct http_server *, 0);
    request.location = request.server->root;
    return &request;
}

int http_lua_ffi_value_compute(const struct value_function *function, int count, const char *first,
                               size_t first_len, const char *second, size_t second_len, char *out,
                               int size)
{
    struct str value;

    if (script_running() == NULL) {
        return LUA_FFI_BAD_VALUE;
    }
    bool has_request = script_running()->subject->kind == &http_lua_request_kind;
    struct request *request = has_request ? http_lua_running_request() : stand_in();
    struct str args[2];

    if (count > 0) {
        args[0] = arena_dup(&request->arena, (struct str){first, first_len});
    }
    if (count > 1) {
        args[1] = arena_dup(&request->arena, (struct str){second, second_len});
    }

    if (!function->compute(request, args, (unsigned) count, &value)) {
        return LUA_FFI_BAD_VALUE;
    }
    if (value.len <= (size_t) size) {
        str_put(out, value);
    }
    return (int) value.len;
}
