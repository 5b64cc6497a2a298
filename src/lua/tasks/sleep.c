/* ngx.sleep, and how the parts of this package are added. */
#include "base/clock.h"
#include "lua/tasks/tasks.h"
#include "lua/vm/function.h"

static int do_sleep(lua_State *L, struct script_thread *thread)
{
    int count = lua_gettop(L);

    if (count != 1) {
        return luaL_error(L, "attempt to pass %d arguments, but accepted 1", count);
    }
    double seconds = luaL_checknumber(L, 1);
    if (!(seconds >= 0) || seconds > 1e12) {
        return luaL_error(L, "invalid sleep duration \"%d\"", (int) (seconds * 1000));
    }
    script_demand(L, thread, SCRIPT_WAITING);
    uint64_t delay_ms = (uint64_t) (seconds * 1000);
    if (delay_ms == 0) {
        fiber_yield();
    } else {
        fiber_sleep(clock_now.now_ms + delay_ms);
    }
    return 0;
}

static const struct script_row rows[] = {
    {"sleep", do_sleep, SCRIPT_WAITING | SCRIPT_ARGUMENTS_FIRST, .waits = true},
    {0},
};

void script_tasks_add(lua_State *L)
{
    script_add(L, rows);
    script_threads_add(L);
    script_timers_add(L);
    script_coroutines_add(L);
    script_semaphore_add(L);
}
