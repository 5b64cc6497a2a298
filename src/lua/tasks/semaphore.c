/* ngx.semaphore: counts that threads of all requests wait for. */
#include "base/clock.h"
#include "event/loop.h"
#include "lua/tasks/tasks.h"
#include "lua/vm/function.h"
#include "lua/vm/library.h"

#define META "ngx.semaphore"
#define WAIT_MOST_S 1000000000u /* longer waits count as this */

SCRIPT_TEXT(script_semaphore_text, "src/lua/library/ngx/semaphore.lua")

/* A full userdata; who waits has it on its stack. */
struct semaphore {
    struct list waiters; /* struct waiter, oldest first */
    double count;        /* so many may take it */
    struct timer due;    /* set when some that wait may have it */
};

/* On the stack of a function that waits. */
struct waiter {
    struct list node; /* in semaphore->waiters, unless it has_it */
    struct wait_point point;
    bool has_it;
};

static struct semaphore *script_semaphore_check(lua_State *L)
{
    return luaL_checkudata(L, 1, META);
}

/* In the next turn of the loop: the thread that posts runs on before those that wait. */
static void grant(struct timer *timer)
{
    struct semaphore *semaphore = container_of(timer, struct semaphore, due);

    while (semaphore->count >= 1 && !list_is_empty(&semaphore->waiters)) {
        struct waiter *waiter =
            container_of(list_pop_front(&semaphore->waiters), struct waiter, node);

        semaphore->count--;
        waiter->has_it = true;
        wait_signal_later(&waiter->point);
    }
}

static void script_semaphore_give(struct semaphore *semaphore, double count)
{
    semaphore->count += count;
    if (!list_is_empty(&semaphore->waiters)) {
        timer_set(&semaphore->due, clock_now.now_ms);
    }
}

static int make(lua_State *L, struct script_thread *thread)
{
    double count = luaL_checknumber(L, 1);
    struct semaphore *semaphore = lua_newuserdata(L, sizeof(*semaphore));

    (void) thread;
    semaphore->count = count;
    list_init(&semaphore->waiters);
    timer_init(&semaphore->due, grant);
    luaL_getmetatable(L, META);
    lua_setmetatable(L, -2);
    return 1;
}

static int post(lua_State *L, struct script_thread *thread)
{
    (void) thread;
    script_semaphore_give(script_semaphore_check(L), luaL_checknumber(L, 2));
    lua_pushboolean(L, true);
    return 1;
}

static int wait(lua_State *L, struct script_thread *thread)
{
    struct semaphore *semaphore = script_semaphore_check(L);
    double seconds = luaL_checknumber(L, 2);
    uint64_t delay_ms = seconds > WAIT_MOST_S ? WAIT_MOST_S * 1000 : (uint64_t) (seconds * 1000);
    struct waiter waiter = {.has_it = false};

    if (thread == NULL || (thread->phase & SCRIPT_WAITING) == 0) {
        lua_pushnil(L);
        lua_pushfstring(L, "API disabled in the context of %s",
                        script_phase_text(thread != NULL ? thread->phase : SCRIPT_INIT));
        return 2;
    }
    if (semaphore->count >= 1 && list_is_empty(&semaphore->waiters)) {
        semaphore->count--;
        lua_pushboolean(L, true);
        return 1;
    }
    if (delay_ms == 0) {
        return script_fail(L, "timeout");
    }
    list_push_back(&semaphore->waiters, &waiter.node);

    enum wait_result result = fiber_wait(&waiter.point, clock_now.now_ms + delay_ms);
    if (!waiter.has_it) {
        list_remove(&waiter.node);
        lua_pushboolean(L, false); /* nil is what did not wait */
        lua_pushliteral(L, "timeout");
        return 2;
    }
    if (result == WAIT_CANCELLED || fiber_is_cancelled()) {
        script_semaphore_give(semaphore, 1);
        return 0;
    }
    lua_pushboolean(L, true);
    return 1;
}

static int script_semaphore_count(lua_State *L, struct script_thread *thread)
{
    const struct semaphore *semaphore = script_semaphore_check(L);
    double waiting = 0;

    (void) thread;
    list_each(item, &semaphore->waiters) {
        waiting++;
    }
    lua_pushnumber(L, semaphore->count - waiting);
    return 1;
}

static int script_semaphore_collect(lua_State *L)
{
    timer_remove(&script_semaphore_check(L)->due);
    return 0;
}

static const struct script_row rows[] = {
    {"new", make, 0, false},
    {"post", post, 0, false},
    {"wait", wait, 0, .waits = true},
    {"count", script_semaphore_count, 0, false},
};

static int script_semaphore_open(lua_State *L)
{
    luaL_newmetatable(L, META);
    lua_pushcfunction(L, script_semaphore_collect);
    lua_setfield(L, -2, "__gc");
    lua_pop(L, 1);
    script_text_load(L, "ngx.semaphore", SCRIPT_TEXT_OF(script_semaphore_text));
    lua_pushliteral(L, "ngx.semaphore");
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        script_push_function(L, &rows[i]);
    }
    lua_call(L, 1 + sizeof(rows) / sizeof(rows[0]), 1);
    return 1;
}

void script_semaphore_add(lua_State *L)
{
    script_preload(L, "ngx.semaphore", script_semaphore_open);
}
