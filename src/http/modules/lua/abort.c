/* Clients that leave while Lua works for them: lua_check_client_abort and ngx.on_abort. */
#include "http/modules/lua/lua.h"
#include "http/request/engine.h"

/* Runs the function of ngx.on_abort as a thread beside those that there are. */
static bool call_back(struct lua_request *lua)
{
    lua_State *L = lua->subject.vm->state;
    struct script_thread *running = script_running;

    lua_rawgeti(L, LUA_REGISTRYINDEX, lua->on_abort);
    luaL_unref(L, LUA_REGISTRYINDEX, lua->on_abort);
    lua->on_abort = LUA_NOREF;
    bool is_started = script_spawn(lua->entry, L, 0) != NULL;
    script_running = running;
    lua_pop(L, 1); /* its coroutine, or why there is none, which was logged */
    return is_started;
}

static bool goes_on(struct abort_watcher *watcher)
{
    struct lua_request *lua = container_of(watcher, struct lua_request, aborts);
    bool had_left = lua->has_left;

    lua->has_left = true;
    if (had_left || !lua->subject.settings->check_client_abort) {
        return true;
    }
    if (lua->on_abort != LUA_NOREF && lua->entry != NULL) {
        return call_back(lua);
    }
    log_info(lua->subject.log, 0, "client prematurely closed connection");
    return false;
}

struct abort_watcher *lua_abort_begin(struct lua_request *lua)
{
    struct request *request = lua->request;
    struct abort_watcher *outer = request->abort_watcher;

    if (request == request->main) {
        lua->aborts.goes_on = goes_on;
        lua->entry = NULL;
        lua->on_abort = LUA_NOREF;
        request->abort_watcher = &lua->aborts;
    }
    return outer;
}

void lua_abort_end(struct lua_request *lua, struct abort_watcher *outer)
{
    struct request *request = lua->request;

    if (request != request->main) {
        return;
    }
    request->abort_watcher = outer;
    luaL_unref(lua->subject.vm->state, LUA_REGISTRYINDEX, lua->on_abort);
    lua->on_abort = LUA_NOREF;
    if (lua->has_left && outer == NULL) {
        request_cancel(request); /* no Lua that wants to go on is at work any more */
    }
}

static int on_abort(lua_State *L, struct script_thread *thread)
{
    struct lua_request *lua = lua_check_request(L, thread);

    if (!lua->subject.settings->check_client_abort) {
        return script_fail(L, "lua_check_client_abort is off");
    }
    script_demand(L, thread,
                  SCRIPT_SERVER_REWRITE | SCRIPT_REWRITE | SCRIPT_ACCESS | SCRIPT_PRECONTENT |
                      SCRIPT_CONTENT);
    if (lua->entry != NULL) {
        return script_fail(L, "duplicate call");
    }
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    lua->on_abort = luaL_ref(L, LUA_REGISTRYINDEX);
    lua->entry = thread->entry;
    lua_pushinteger(L, 1);
    return 1;
}

static const struct script_row abort_rows[] = {{"on_abort", on_abort, 0, false}, {0}};

void lua_abort_add(lua_State *L)
{
    script_add(L, abort_rows);
}
