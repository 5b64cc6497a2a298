/* ngx.dyups: scripts change groups as requests to dyups_interface do. */
#include "lua/upstream/upstream.h"
#include "lua/vm/function.h"
#include "lua/vm/thread.h"

/* Nobody changes groups in this process: there is no dyups_interface in the configuration, or no
 * worker yet, or it ends. */
#define STATUS_NOBODY 503

static int change(lua_State *L, struct script_thread *thread, const struct str *text)
{
    const struct upstream_set *set = script_upstream_set(L);
    struct str name = script_check_str(L, 1);
    struct str said = STR("no dyups_interface");
    const struct log *log = thread != NULL ? thread->subject->log : log_main;
    unsigned status = set->change == NULL ? STATUS_NOBODY : set->change(name, text, log, &said);

    lua_pushinteger(L, (lua_Integer) status);
    script_push_str(L, said);
    return 2;
}

static int update(lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 2) {
        return luaL_error(L, "exactly 2 arguments expected");
    }
    struct str text = script_check_str(L, 2);
    return change(L, thread, &text);
}

static int delete (lua_State *L, struct script_thread *thread)
{
    if (lua_gettop(L) != 1) {
        return luaL_error(L, "exactly one argument expected");
    }
    return change(L, thread, NULL);
}

static const struct script_row rows[] = {
    {"update", update, 0, false},
    {"delete", delete, 0, false},
    {0},
};

static int script_changes_open(lua_State *L)
{
    lua_newtable(L);
    script_add(L, rows);
    return 1;
}

void script_changes_add(lua_State *L)
{
    script_preload(L, "ngx.dyups", script_changes_open);
}
