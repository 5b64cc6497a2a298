/* The phases of a request in which Lua runs. */
#include "http/modules/lua/lua.h"
#include "http/request/body.h"
#include "http/request/response.h"
#include "http/request/wire.h"
#include "http/routing/response_settings.h"

/* An error after output. As in OpenResty, a client gets nothing of what waits for more to be sent
 * with it (postpone_output). */
static enum handler_result fail_late(const struct http_lua_request *lua)
{
    const struct request *request = lua->request;
    bool drops = request == request->main && !request->wire->is_multiplexed &&
                 !request->response.is_header_only && !lua->output.has_ended &&
                 request->wire->backlog(request, 0) < request->location->responses->postpone_output;

    return drops ? HANDLER_CLOSED : HANDLER_CUT;
}

/* What the handler of a phase returns after its script. MAY WAIT. */
static enum handler_result flow_after(struct http_lua_request *lua, enum script_phase phase,
                                      enum script_end end)
{
    struct request *request = lua->request;

    if (lua->result.kind == LUA_RESULT_DECIDED) {
        return lua->result.result;
    }
    if (lua->result.kind == LUA_RESULT_EXITED) {
        return lua_exit_result(lua, phase);
    }
    if (end == SCRIPT_FAILED) {
        return request->response.progress != RESPONSE_NOT_SENT
                   ? fail_late(lua)
                   : request_fail(request, (unsigned) lua->subject.failed_with);
    }
    if (end == SCRIPT_CANCELLED) {
        return HANDLER_CLOSED;
    }
    bool is_answered = phase == SCRIPT_CONTENT || lua->output.has_begun || http_lua_has_output(lua);

    return is_answered ? http_lua_finish_output(lua) : HANDLER_NEXT;
}

/* Runs the code of a phase that may wait; gives what its handler returns: HANDLER_NEXT where it
 * came to its end. MAY WAIT. */
static enum handler_result http_lua_phases_run(struct request *request, enum script_phase phase,
                                               const struct script_code *code)
{
    struct http_lua_request *lua = http_lua_request_of(request);
    struct script_call call = {.subject = &lua->subject, .phase = phase, .code = code};

    if (http_lua_settings_of(request)->needs_body && request->incoming.body == NULL) {
        enum handler_result result = request_read_body(request);
        if (result != HANDLER_NEXT) {
            return result;
        }
    }
    if (lua->output.has_begun && request->response.progress == RESPONSE_NOT_SENT &&
        !request->response.hold.is_held) {
        http_lua_reset_output(lua);
    }
    if (request == request->main && http_lua_settings_of(request)->log != NULL &&
        request->wire->log_first != NULL) {
        request->wire->log_first(request);
    }
    lua->result = (struct http_lua_result){.kind = LUA_RESULT_NONE};
    struct abort_watcher *outer = http_lua_abort_begin(lua);
    enum handler_result result = flow_after(lua, phase, script_run(&call));
    http_lua_abort_end(lua, outer);
    return result;
}

enum handler_result http_lua_server_rewrite(struct request *request)
{
    return http_lua_phases_run(request, SCRIPT_SERVER_REWRITE,
                               http_lua_settings_of(request)->server_rewrite);
}

enum handler_result http_lua_rewrite(struct request *request)
{
    const struct script_code *code = http_lua_settings_of(request)->rewrite;

    if (code == NULL || request->uri_state == URI_MOVED) {
        return HANDLER_NEXT; /* of another `if`; or a location is searched again */
    }
    return http_lua_phases_run(request, SCRIPT_REWRITE, code);
}

enum handler_result http_lua_access(struct request *request)
{
    unsigned status = request->response.status;

    if (request->location->satisfy == SATISFY_ANY &&
        (status == 401 || status == 403 || status == 407)) {
        request->response.status = 0; /* another checker's refusal: who runs them has it in mind */
    }
    enum handler_result result =
        http_lua_phases_run(request, SCRIPT_ACCESS, http_lua_settings_of(request)->access);
    const struct http_lua_request *lua = http_lua_request_of(request);

    return result == HANDLER_NEXT && lua->result.kind != LUA_RESULT_EXITED ? HANDLER_ALLOW : result;
}

enum handler_result http_lua_precontent(struct request *request)
{
    return http_lua_phases_run(request, SCRIPT_PRECONTENT,
                               http_lua_settings_of(request)->precontent);
}

enum handler_result http_lua_content(struct request *request)
{
    struct http_lua_request *lua = http_lua_request_of(request);

    if (request->response.status == 0) {
        request->response.status = lua->exit_status;
    }
    lua->exit_status = 0;
    return http_lua_phases_run(request, SCRIPT_CONTENT, http_lua_settings_of(request)->content);
}

enum handler_result http_lua_log(struct request *request)
{
    struct http_lua_request *lua = http_lua_request_of(request);
    struct script_call call = {.subject = &lua->subject,
                               .phase = SCRIPT_LOG,
                               .code = http_lua_settings_of(request)->log};

    connection_push(request->connection);
    script_run(&call);
    return HANDLER_NEXT;
}
