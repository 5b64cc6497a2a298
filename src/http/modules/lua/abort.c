/* Clients that leave while Lua works for them: lua_check_client_abort and ngx.on_abort. */
#include "http/modules/lua/lua.h"
#include "http/request/engine.h"
#include "http/request/wire.h"

static bool goes_on(struct abort_watcher *watcher)
{
    struct http_lua_request *lua = container_of(watcher, struct http_lua_request, aborts);

    lua->has_left = true;
    if (lua->knows_of_leaving || !lua->subject.settings->check_client_abort) {
        return true;
    }
    lua->knows_of_leaving = true;
    log_info(lua->subject.log, 0, "client prematurely closed connection");
    return script_abort_tell(&lua->abort, &lua->subject);
}

/* Now that no script continues in spite of it: the connection reports once more that its client
 * closed its side. */
static void report_leaving(struct deferred *deferred)
{
    struct http_lua_request *lua = container_of(deferred, struct http_lua_request, leaving);

    if (lua->request->fiber != NULL) {
        connection_report_input(lua->request->connection);
    }
}

struct abort_watcher *http_lua_abort_begin(struct http_lua_request *lua)
{
    struct request *request = lua->request;
    struct abort_watcher *outer = request->abort_watcher;

    if (request == request->main) {
        lua->aborts.goes_on = goes_on;
        script_abort_begin(&lua->abort);
        request->abort_watcher = &lua->aborts;
    }
    return outer;
}

void http_lua_abort_end(struct http_lua_request *lua, struct abort_watcher *outer)
{
    struct request *request = lua->request;

    if (request != request->main) {
        return;
    }
    request->abort_watcher = outer;
    script_abort_end(&lua->abort, &lua->subject);
    if (!lua->has_left || outer != NULL) {
        return;
    }
    lua->has_left = false;
    if (request->wire->bare == NULL || request_has_lost_client(request)) {
        request_cancel(request); /* no Lua that wants to go on is at work any more */
        return;
    }
    /* It may have closed its sending side alone: it gets its response, unless that waits for
     * something else than the client. */
    if (lua->leaving.run == NULL) {
        deferred_init(&lua->leaving, report_leaving);
    }
    loop_defer(&lua->leaving);
}

void http_lua_abort_forget(struct http_lua_request *lua)
{
    if (lua->leaving.run != NULL) {
        loop_undefer(&lua->leaving);
    }
}

static int on_abort(lua_State *L, struct script_thread *thread)
{
    const uint32_t phases =
        SCRIPT_SERVER_REWRITE | SCRIPT_REWRITE | SCRIPT_ACCESS | SCRIPT_PRECONTENT | SCRIPT_CONTENT;

    if ((thread->phase & SCRIPT_OF_REQUEST) == 0) {
        script_demand(L, thread, phases);
    }
    return script_on_abort(L, thread, &http_lua_check_request(L, thread)->abort, phases);
}

static const struct script_row abort_rows[] = {{"on_abort", on_abort, 0, false}, {0}};

void http_lua_abort_add(lua_State *L)
{
    script_add(L, abort_rows);
}
