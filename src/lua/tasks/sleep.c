/* ngx.sleep. */
#include "base/clock.h"
#include "lua/tasks/tasks.h"
#include "lua/vm/function.h"

static int do_sleep(lua_State *L, struct script_thread *thread)
{
    double seconds = luaL_checknumber(L, 1);

    (void) thread;
    if (!(seconds >= 0) || seconds > 1e12) {
        return luaL_error(L, "invalid sleep duration \"%d\"", (int) (seconds * 1000));
    }
    fiber_sleep(clock_now.now_ms + (uint64_t) (seconds * 1000));
    return 0;
}

static const struct script_row rows[] = {{"sleep", do_sleep, SCRIPT_WAITING, .waits = true}, {0}};

void script_tasks_add(lua_State *L)
{
    script_add(L, rows);
}
