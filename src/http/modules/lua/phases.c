/* The phases of a request in which Lua runs. */
#include "http/modules/lua/lua.h"
#include "http/request/body.h"
#include "http/request/response.h"
#include "http/request/wire.h"

/* Runs the code of a phase that may wait; gives what its handler returns: FLOW_NEXT where it came to its end. MAY WAIT. */
static enum flow run(struct request *request, enum script_phase phase,
                     const struct script_code *code)
{
    struct lua_request *lua = lua_request_of(request);
    struct script_call call = {.subject = &lua->subject, .phase = phase, .code = code};

    if (lua_settings_of(request)->needs_body && request->body == NULL) {
        enum flow flow = request_read_body(request);
        if (flow != FLOW_NEXT) {
            return flow;
        }
    }
    if (lua->output.has_begun && !request->response.is_head_sent && !request->response.is_held) {
        lua_reset_output(lua);
    }
    if (request == request->main && lua_settings_of(request)->log != NULL &&
        request->wire->log_first != NULL) {
        request->wire->log_first(request);
    }
    lua->has_decided = false;
    lua->has_exited = false;
    struct abort_watcher *outer = lua_abort_begin(lua);
    enum script_end end = script_run(&call);
    enum flow flow;

    if (lua->has_decided) {
        flow = lua->flow;
    } else if (lua->has_exited) {
        flow = lua_exit_flow(lua, phase);
    } else if (end == SCRIPT_FAILED) {
        flow = request->response.is_head_sent
                   ? FLOW_CUT
                   : request_fail(request, (unsigned) lua->subject.failed_with);
    } else if (end == SCRIPT_CANCELLED) {
        flow = FLOW_CLOSED;
    } else if (phase == SCRIPT_CONTENT || lua->output.has_begun || lua_has_output(lua)) {
        flow = lua_finish_output(lua);
    } else {
        flow = FLOW_NEXT;
    }
    lua_abort_end(lua, outer);
    return flow;
}

enum flow lua_server_rewrite(struct request *request)
{
    return run(request, SCRIPT_SERVER_REWRITE, lua_settings_of(request)->server_rewrite);
}

enum flow lua_rewrite(struct request *request)
{
    const struct script_code *code = lua_settings_of(request)->rewrite;

    if (code == NULL || request->uri_changed) {
        return FLOW_NEXT; /* of another `if`; or a location is searched anew */
    }
    return run(request, SCRIPT_REWRITE, code);
}

enum flow lua_access(struct request *request)
{
    unsigned status = request->response.status;

    if (request->location->satisfy == SATISFY_ANY &&
        (status == 401 || status == 403 || status == 407)) {
        request->response.status = 0; /* another checker's refusal: who runs them has it in mind */
    }
    enum flow flow = run(request, SCRIPT_ACCESS, lua_settings_of(request)->access);
    const struct lua_request *lua = lua_request_of(request);

    return flow == FLOW_NEXT && !lua->has_exited ? FLOW_ALLOW : flow;
}

enum flow lua_precontent(struct request *request)
{
    return run(request, SCRIPT_PRECONTENT, lua_settings_of(request)->precontent);
}

enum flow lua_content(struct request *request)
{
    struct lua_request *lua = lua_request_of(request);

    if (request->response.status == 0) {
        request->response.status = lua->exit_status;
    }
    lua->exit_status = 0;
    return run(request, SCRIPT_CONTENT, lua_settings_of(request)->content);
}

enum flow lua_log(struct request *request)
{
    struct lua_request *lua = lua_request_of(request);
    struct script_call call = {.subject = &lua->subject,
                               .phase = SCRIPT_LOG,
                               .code = lua_settings_of(request)->log};

    script_run(&call);
    return FLOW_NEXT;
}
