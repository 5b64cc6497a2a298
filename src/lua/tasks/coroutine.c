/* coroutine.*: Lua's own, where threads of ours are among the coroutines. */
#include "lua/tasks/tasks.h"
#include "lua/vm/failure.h"
#include "lua/vm/function.h"
#include "lua/vm/library.h"

SCRIPT_TEXT(script_coroutine_text, "src/lua/library/coroutine.lua")

static lua_State *check_coroutine(lua_State *L, int index)
{
    lua_State *coroutine = lua_tothread(L, index);

    luaL_argcheck(L, coroutine != NULL, index, "coroutine expected");
    return coroutine;
}

/* What the body of a thread yields nobody takes: others have a turn. */
static int yield(lua_State *L, struct script_thread *thread)
{
    if (thread != NULL && L == thread->state && (thread->phase & SCRIPT_WAITING) != 0) {
        if (fiber_has_ready()) {
            fiber_queue();
            fiber_await_turn();
        } else {
            fiber_yield();
        }
        return 0;
    }
    return lua_yield(L, lua_gettop(L));
}

/* Does a thread run there, or wait? Of one that has frames: `at` may also be one that has yielded
 * since. */
static bool is_in_thread(const lua_State *coroutine)
{
    if (script_running() == NULL) {
        return false;
    }
    list_each(item, &script_running()->subject->threads) {
        const struct script_thread *thread = container_of(item, struct script_thread, node);

        if (thread->at == coroutine && thread->state != coroutine) {
            return true;
        }
    }
    return false;
}

static const char *status_of_plain(lua_State *L, lua_State *coroutine)
{
    lua_Debug frame;

    if (coroutine == L) {
        return "running";
    }
    switch (lua_status(coroutine)) {
    case LUA_YIELD:
        return "suspended";
    case 0:
        if (lua_getstack(coroutine, 0, &frame)) {
            return is_in_thread(coroutine) ? "running" : "normal";
        }
        return lua_gettop(coroutine) == 0 ? "dead" : "suspended";
    default:
        return "dead";
    }
}

static int status(lua_State *L, struct script_thread *thread)
{
    lua_State *coroutine = check_coroutine(L, 1);
    struct script_thread *other;

    (void) thread;
    switch (script_thread_of(L, 1, &other)) {
    case COROUTINE_THREAD:
        lua_pushstring(L, other->has_ended            ? "zombie"
                          : other->at == other->state ? "running"
                                                      : "normal");
        break;
    case COROUTINE_FORGOTTEN:
        lua_pushliteral(L, "dead");
        break;
    case COROUTINE_PLAIN:
        lua_pushstring(L, status_of_plain(L, coroutine));
        break;
    }
    return 1;
}

static int script_coroutine_keep(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    script_failure_keep(L, check_coroutine(L, 1));
    return 0;
}

/* Each coroutine that runs another takes of the stack of C, and has one of Lua that ends nowhere
 * near: 100,000 may. */
static int check_stack(lua_State *L)
{
    if (fiber_is_deep()) {
        return luaL_error(L, "stack overflow");
    }
    return 0;
}

/* Is it a function that is written in Lua? No coroutine runs another. */
static int is_of_lua(lua_State *L)
{
    lua_pushboolean(L, lua_isfunction(L, 1) && !lua_iscfunction(L, 1));
    return 1;
}

static int may_wait(lua_State *L)
{
    const struct script_thread *thread = script_running();

    lua_pushboolean(L, thread != NULL && (thread->phase & SCRIPT_WAITING) != 0);
    return 1;
}

/* Scripts of these phases make no coroutines and yield none. */
enum { PHASES_WITHOUT = SCRIPT_SET | SCRIPT_LOG | SCRIPT_BALANCER };

/* The name of the phase if it is one without coroutines, or nil. */
static int phase_without(lua_State *L)
{
    const struct script_thread *thread = script_running();

    if (thread != NULL && (thread->phase & PHASES_WITHOUT) != 0) {
        lua_pushstring(L, script_phase_text(thread->phase));
    } else {
        lua_pushnil(L);
    }
    return 1;
}

/* Scripts of phases where nothing waits run on the main coroutine in OpenResty: here on the one of
 * their thread. */
static int is_on_main(lua_State *L)
{
    const struct script_thread *thread = script_running();

    lua_pushboolean(L,
                    thread != NULL && L == thread->state && (thread->phase & SCRIPT_WAITING) == 0);
    return 1;
}

static const struct script_row rows[] = {
    {"yield", yield, SCRIPT_ALL & ~PHASES_WITHOUT, .waits = true},
    {"status", status, 0, false},
    {"keep", script_coroutine_keep, 0, false},
};

void script_coroutines_add(lua_State *L)
{
    int count = sizeof(rows) / sizeof(rows[0]);

    for (int i = 0; i < count; i++) {
        script_push_function(L, &rows[i]);
    }
    script_push_threads(L);
    lua_pushcfunction(L, check_stack);
    lua_pushcfunction(L, is_of_lua);
    lua_pushcfunction(L, may_wait);
    lua_pushcfunction(L, phase_without);
    lua_pushcfunction(L, is_on_main);
    script_text_run(L, "coroutine", SCRIPT_TEXT_OF(script_coroutine_text), count + 6);
}
