/* ngx.exit, and what becomes of the request after it. */
#include "http/modules/lua/lua.h"
#include "http/request/response.h"

/* Codes of nginx's own. */
enum { CODE_OK = 0, CODE_ERROR = -1, CODE_AGAIN = -2, CODE_DONE = -4, CODE_DECLINED = -5 };

#define EXIT_PHASES                                                                                \
    (SCRIPT_SERVER_REWRITE | SCRIPT_REWRITE | SCRIPT_ACCESS | SCRIPT_PRECONTENT | SCRIPT_CONTENT | \
     SCRIPT_TIMER | SCRIPT_HEADER_FILTER | SCRIPT_BALANCER | SCRIPT_CERTIFICATE |                  \
     SCRIPT_SESSION_STORE | SCRIPT_SESSION_FETCH | SCRIPT_CLIENT_HELLO |                           \
     SCRIPT_PROXY_CERTIFICATE | SCRIPT_PROXY_VERIFY)

/* Of a request that waits for its backend: the script decides of that alone. */
#define ON_BEHALF (SCRIPT_BALANCER | SCRIPT_PROXY_CERTIFICATE | SCRIPT_PROXY_VERIFY)

/* Those that end the connection, whatever was given. */
static bool drops_client(int code)
{
    return code == 444 || code == 499 || code == 408;
}

/* A status that comes too late is logged, and the response continues as it is. */
static int check_late(struct http_lua_request *lua, enum script_phase phase, int code)
{
    const struct request *request = lua->request;

    if (code < 300 || drops_client(code) || phase == SCRIPT_HEADER_FILTER ||
        !http_lua_has_output(lua)) {
        return code;
    }
    if (request->response.progress != RESPONSE_NOT_SENT && code != (int) request->response.status) {
        log_error(&request->log, 0,
                  "attempt to set status %d via ngx.exit after sending out the response status %u",
                  code, request->response.status);
    }
    return 200;
}

static int do_exit(lua_State *L, struct script_thread *thread)
{
    if (lua_type(L, 1) != LUA_TNUMBER) {
        luaL_checktype(L, 1, LUA_TNUMBER);
    }
    int code = (int) lua_tonumber(L, 1);

    script_demand_leavable(L);
    if (code == CODE_AGAIN || code == CODE_DONE) {
        return luaL_error(L, "bad argument to 'ngx.exit': does not accept NGX_AGAIN or NGX_DONE");
    }
    if (thread->subject->kind == &http_lua_request_kind && (thread->phase & ON_BEHALF) == 0) {
        struct http_lua_request *lua = http_lua_check_request(L, thread);

        script_demand(L, thread, EXIT_PHASES);
        if (!drops_client(code) && code != CODE_ERROR) {
            script_demand_abortable(L, thread);
        }
        lua->result = (struct http_lua_result){.kind = LUA_RESULT_EXITED,
                                               .code = check_late(lua, thread->phase, code)};
    } else {
        script_demand(L, thread, EXIT_PHASES);
        thread->subject->exit_code = code;
    }
    if ((thread->phase & SCRIPT_EXIT_RETURNS) != 0) {
        return 0;
    }
    script_leave(thread, SCRIPT_LEFT);
}

/* An answer of this status without a body of its own, or the rest of one that has begun. MAY WAIT.
 */
static enum handler_result http_lua_exit_answer(struct http_lua_request *lua, int code)
{
    struct response *response = &lua->request->response;

    if (!http_lua_has_output(lua) && (code != 200 || response->status == 0)) {
        response->status = (unsigned) code;
    }
    return http_lua_finish_output(lua);
}

enum handler_result lua_exit_result(struct http_lua_request *lua, enum script_phase phase)
{
    struct request *request = lua->request;
    int code = lua->result.code;
    bool is_content = phase == SCRIPT_CONTENT;

    if (code == CODE_OK) {
        if (is_content || http_lua_has_output(lua)) {
            return http_lua_finish_output(lua);
        }
        return phase == SCRIPT_ACCESS ? HANDLER_ALLOW : HANDLER_NEXT;
    }
    if (code == CODE_DECLINED && !is_content) {
        return http_lua_has_output(lua) && request->answering != NULL &&
                       request->answering->content.run != http_lua_content
                   ? http_lua_finish_output(lua)
                   : HANDLER_NEXT;
    }
    if (code < 200) {
        return HANDLER_CLOSED;
    }
    if (code < 300) {
        return http_lua_exit_answer(lua, code);
    }
    if (drops_client(code)) {
        request->response.status = (unsigned) code;
        request->keepalive = false;
        return HANDLER_CLOSED;
    }
    lua->exit_status = (unsigned) code;
    return request_fail(request, (unsigned) code);
}

/* Names of codes and statuses for scripts. */
static const struct {
    const char *name;
    int value;
} constants[] = {
    {"HTTP_CONTINUE", 100},
    {"HTTP_SWITCHING_PROTOCOLS", 101},
    {"HTTP_OK", 200},
    {"HTTP_CREATED", 201},
    {"HTTP_ACCEPTED", 202},
    {"HTTP_NO_CONTENT", 204},
    {"HTTP_PARTIAL_CONTENT", 206},
    {"HTTP_SPECIAL_RESPONSE", 300},
    {"HTTP_MOVED_PERMANENTLY", 301},
    {"HTTP_MOVED_TEMPORARILY", 302},
    {"HTTP_SEE_OTHER", 303},
    {"HTTP_NOT_MODIFIED", 304},
    {"HTTP_TEMPORARY_REDIRECT", 307},
    {"HTTP_PERMANENT_REDIRECT", 308},
    {"HTTP_BAD_REQUEST", 400},
    {"HTTP_UNAUTHORIZED", 401},
    {"HTTP_PAYMENT_REQUIRED", 402},
    {"HTTP_FORBIDDEN", 403},
    {"HTTP_NOT_FOUND", 404},
    {"HTTP_NOT_ALLOWED", 405},
    {"HTTP_NOT_ACCEPTABLE", 406},
    {"HTTP_REQUEST_TIMEOUT", 408},
    {"HTTP_CONFLICT", 409},
    {"HTTP_GONE", 410},
    {"HTTP_UPGRADE_REQUIRED", 426},
    {"HTTP_TOO_MANY_REQUESTS", 429},
    {"HTTP_CLOSE", 444},
    {"HTTP_ILLEGAL", 451},
    {"HTTP_INTERNAL_SERVER_ERROR", 500},
    {"HTTP_NOT_IMPLEMENTED", 501},
    {"HTTP_METHOD_NOT_IMPLEMENTED", 501},
    {"HTTP_BAD_GATEWAY", 502},
    {"HTTP_SERVICE_UNAVAILABLE", 503},
    {"HTTP_GATEWAY_TIMEOUT", 504},
    {"HTTP_VERSION_NOT_SUPPORTED", 505},
    {"HTTP_INSUFFICIENT_STORAGE", 507},
};

static const struct script_row exit_rows[] = {{"exit", do_exit, 0, false}, {0}};

void http_lua_exit_add(lua_State *L)
{
    script_add(L, exit_rows);
    for (unsigned i = 0; i < sizeof(constants) / sizeof(constants[0]); i++) {
        lua_pushinteger(L, constants[i].value);
        lua_setfield(L, -2, constants[i].name);
    }
}
