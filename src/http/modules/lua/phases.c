/* The phases of a request in which Lua runs. */
#include "http/modules/lua/lua.h"
#include "http/request/response.h"

/* Runs the code of a phase; gives what its handler returns. */
static enum flow run(struct request *request, enum script_phase phase,
                     const struct script_code *code)
{
    struct lua_request *lua = lua_request_of(request);
    struct script_call call = {.subject = &lua->subject, .phase = phase, .code = code};

    lua->has_decided = false;
    switch (script_run(&call)) {
    case SCRIPT_ENDED:
        return FLOW_NEXT;
    case SCRIPT_LEFT:
        return lua->has_decided ? lua->flow : FLOW_NEXT;
    case SCRIPT_CANCELLED:
        return FLOW_CLOSED;
    case SCRIPT_FAILED:
        break;
    }
    return request->response.is_head_sent ? FLOW_CUT
                                          : request_fail(request, lua->subject.failed_with);
}

enum flow lua_rewrite(struct request *request)
{
    return run(request, SCRIPT_REWRITE, lua_settings_of(request)->rewrite);
}

enum flow lua_access(struct request *request)
{
    return run(request, SCRIPT_ACCESS, lua_settings_of(request)->access);
}

enum flow lua_content(struct request *request)
{
    struct lua_request *lua = lua_request_of(request);
    enum flow flow = run(request, SCRIPT_CONTENT, lua_settings_of(request)->content);

    if (flow != FLOW_NEXT) {
        return flow;
    }
    flow = lua_send_head(lua);
    if (flow != FLOW_NEXT) {
        return flow;
    }
    return response_send(request, NULL, true) ? FLOW_DONE : FLOW_CLOSED;
}

enum flow lua_log(struct request *request)
{
    run(request, SCRIPT_LOG, lua_settings_of(request)->log);
    return FLOW_NEXT;
}
