/* What the request line says, and the request as a whole. */
#include "base/clock.h"
#include "http/message/methods.h"
#include "http/modules/lua/ffi.h"
#include "http/modules/lua/lua.h"
#include "http/request/wire.h"

/* ngx.HTTP_GET and so on: the bit of a method, shifted by one as nginx has them, which knows no
 * CONNECT there. */
#define METHOD_SHIFT 1

static const struct {
    struct str name;
    const char *constant;
    unsigned method;
} methods[] = {
#define METHOD_NAME(method, name, bit) {STR_INIT(name), "HTTP_" name, method},
    KNOWN_METHODS(METHOD_NAME)
#undef METHOD_NAME
};
#define COUNT (sizeof(methods) / sizeof(methods[0]))

struct str http_lua_method_name(int number)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (methods[i].method != METHOD_CONNECT &&
            (int) (methods[i].method << METHOD_SHIFT) == number) {
            return methods[i].name;
        }
    }
    return STR_NONE;
}

int http_lua_ffi_method(const char **out)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    return result == LUA_FFI_OK ? http_lua_ffi_give(request->method_name, out) : result;
}

int http_lua_ffi_method_set(int number)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    if (result != LUA_FFI_OK) {
        return result;
    }
    struct str name = http_lua_method_name(number);
    if (name.len == 0) {
        return LUA_FFI_BAD_VALUE;
    }
    request->method = method_named(name);
    request->method_name = name;
    return LUA_FFI_OK;
}

int http_lua_ffi_is_subrequest(void)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    return result != LUA_FFI_OK ? result : request != request->main;
}

int http_lua_ffi_is_internal(void)
{
    struct request *request;
    int result = http_lua_ffi_request(SCRIPT_OF_REQUEST, &request);

    return result != LUA_FFI_OK ? result : request->is_internal;
}

double http_lua_ffi_start_time(void)
{
    struct request *request;

    if (http_lua_ffi_request(SCRIPT_OF_REQUEST, &request) != LUA_FFI_OK) {
        return 0;
    }
    double now = (double) clock_now.seconds + clock_now.milliseconds / 1000.0;
    return now - (double) (clock_now.now_ms - request->start_ms) / 1000.0;
}

static int http_version(lua_State *L, struct script_thread *thread)
{
    const struct request *request = http_lua_demand(L, thread, SCRIPT_OF_REQUEST);

    lua_pushnumber(L, request->head.version / 10.0);
    return 1;
}

/* The head as the client sent it: it lies in one piece for as long as the request lives. */
static int raw_header(lua_State *L, struct script_thread *thread)
{
    const struct request *request = http_lua_demand(L, thread, SCRIPT_OF_REQUEST)->main;

    if (!request->wire->has_text_head) {
        return luaL_error(L, "http2 requests not supported yet");
    }
    struct str head = {request->head.line.data, request->head_size};
    if (!lua_toboolean(L, 1)) {
        script_push_str(L, head);
        return 1;
    }
    const char *end = str_find_char(head, '\n');
    script_push_str(L, end == NULL ? STR("") : str_from(end + 1, head.data + head.len));
    return 1;
}

static const struct script_row rows[] = {
    {"req.http_version", http_version, 0, false},
    {"req.raw_header", raw_header, 0, false},
    {0},
};

void http_lua_req_line_add(lua_State *L)
{
    script_add(L, rows);
    for (size_t i = 0; i < COUNT; i++) {
        if (methods[i].method != METHOD_CONNECT) {
            lua_pushinteger(L, (lua_Integer) methods[i].method << METHOD_SHIFT);
            lua_setfield(L, -2, methods[i].constant);
        }
    }
}
