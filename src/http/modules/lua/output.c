/* ngx.say, ngx.print and their kin. */
#include "base/clock.h"
#include "http/modules/lua/lua.h"
#include "http/request/response.h"

enum flow lua_send_head(struct lua_request *lua)
{
    struct request *request = lua->request;

    if (request->response.is_head_sent) {
        return request->response.is_header_only ? FLOW_DONE : FLOW_NEXT;
    }
    if (request->response.status == 0) {
        request->response.status = 200;
    }
    if (request->response.content_type.len == 0) {
        response_set_type(request);
    }
    return response_start(request);
}

static int give(lua_State *L, struct script_thread *thread, bool ends_line)
{
    struct lua_request *lua = lua_check_request(L, thread);
    int count = lua_gettop(L);

    if (ends_line) {
        lua_pushliteral(L, "\n");
        count++;
    }
    lua_concat(L, count);
    struct body_piece piece = {.bytes = script_check_str(L, 1), .fd = -1, .is_volatile = true};
    enum flow flow = lua_send_head(lua);

    if (flow == FLOW_NEXT && piece.bytes.len != 0 && !response_send(lua->request, &piece, false)) {
        return script_fail(L, "nginx output filter error");
    }
    lua_pushinteger(L, 1);
    return 1;
}

static int say(lua_State *L, struct script_thread *thread)
{
    return give(L, thread, true);
}

static int print(lua_State *L, struct script_thread *thread)
{
    return give(L, thread, false);
}

#define OUTPUT_PHASES                                                                              \
    (SCRIPT_SERVER_REWRITE | SCRIPT_REWRITE | SCRIPT_ACCESS | SCRIPT_PRECONTENT | SCRIPT_CONTENT)

static const struct script_row output_rows[] = {
    {"say", say, OUTPUT_PHASES, .waits = true},
    {"print", print, OUTPUT_PHASES, .waits = true},
    {0},
};

void lua_output_add(lua_State *L)
{
    script_add(L, output_rows);
}
