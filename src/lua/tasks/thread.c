/* ngx.thread.*. */
#include "lua/tasks/tasks.h"
#include "lua/vm/function.h"

static int spawn(lua_State *L, struct script_thread *thread)
{
    luaL_argcheck(L, lua_isfunction(L, 1) && !lua_iscfunction(L, 1), 1, "Lua function expected");
    script_demand(L, thread, SCRIPT_WAITING);
    return script_spawn(thread, L, lua_gettop(L) - 1) != NULL ? 1 : lua_error(L);
}

/* The results of a thread that has ended; it is forgotten. */
static int script_thread_collect(lua_State *L, struct script_thread *ended)
{
    int count = lua_gettop(ended->state);
    bool is_well = ended->end == SCRIPT_ENDED;

    if (ended->end == SCRIPT_CANCELLED || ended->end == SCRIPT_LEFT) {
        lua_pushboolean(L, false);
        lua_pushliteral(L, "killed");
        count = 1;
    } else {
        luaL_checkstack(L, count + 1, "too many results");
        lua_pushboolean(L, is_well);
        lua_xmove(ended->state, L, count);
    }
    script_thread_forget(ended);
    return count + 1;
}

/*
 * The first of the arguments that has ended, or NULL. Those that were waited for or killed are
 * passed over, but for the last one: *is_forgotten is set for it, also where others still run (so
 * does OpenResty). May throw.
 */
static struct script_thread *find_ended(lua_State *L, int count, bool *is_forgotten)
{
    *is_forgotten = false;
    for (int i = 1; i <= count; i++) {
        struct script_thread *other;

        luaL_argcheck(L, lua_isthread(L, i), i, "lua thread expected");
        switch (script_thread_of(L, i, &other)) {
        case COROUTINE_PLAIN:
            luaL_error(L, "attempt to wait on a coroutine that is not a user thread");
            break;
        case COROUTINE_FORGOTTEN:
            *is_forgotten = i == count;
            break;
        case COROUTINE_THREAD:
            if (other->spawner != L) {
                luaL_error(L, "only the parent coroutine can wait on the thread");
            }
            if (other->has_ended) {
                return other;
            }
            break;
        }
    }
    return NULL;
}

static int wait_for(lua_State *L, struct script_thread *thread)
{
    int count = lua_gettop(L);

    if (count == 0) {
        return luaL_error(L, "at least one coroutine should be specified");
    }
    for (;;) {
        bool is_forgotten;
        struct script_thread *ended = find_ended(L, count, &is_forgotten);

        if (ended != NULL) {
            return script_thread_collect(L, ended);
        }
        if (is_forgotten) {
            return script_fail(L, "already waited or killed");
        }
        if (fiber_wait(&thread->child_ended, FIBER_NEVER) == WAIT_CANCELLED) {
            return 0;
        }
    }
}

static int kill_thread(lua_State *L, struct script_thread *thread)
{
    struct script_thread *other;

    (void) thread;
    luaL_argcheck(L, lua_isthread(L, 1), 1, "lua thread expected");
    switch (script_thread_of(L, 1, &other)) {
    case COROUTINE_PLAIN:
        return script_fail(L, "not user thread");
    case COROUTINE_FORGOTTEN:
        return script_fail(L, "already waited or killed");
    case COROUTINE_THREAD:
        break;
    }
    if (other->spawner != L) {
        return script_fail(L, "killer not parent");
    }
    if (other->has_ended) {
        script_thread_forget(other);
        return script_fail(L, "already terminated");
    }
    if (other->subrequests != 0) {
        return script_fail(L, "pending subrequests");
    }
    script_kill(other);
    script_thread_forget(other);
    fiber_queue(); /* it goes before we do, so that what it was in (a socket, a pipe) is free by
                      then */
    fiber_await_turn();
    lua_pushinteger(L, 1);
    return 1;
}

static const struct script_row rows[] = {
    {"thread.spawn", spawn, SCRIPT_ALL & ~SCRIPT_INIT, .waits = true},
    {"thread.wait", wait_for, SCRIPT_WAITING, .waits = true},
    {"thread.kill", kill_thread, SCRIPT_WAITING, .waits = true},
    {0},
};

void script_threads_add(lua_State *L)
{
    script_add(L, rows);
}
