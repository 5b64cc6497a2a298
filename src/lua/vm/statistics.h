/* The counters of the service by the names that FFI code of users knows: ngx_stat_active and so on.
 * Implemented in statistics.c. */
#ifndef LUA_VM_STATISTICS_H
#define LUA_VM_STATISTICS_H

#include <stdint.h>

#include "base/clock.h"

extern uint64_t script_statistics_due_ms;
void script_statistics_update(void);

/* Scripts read them where no function of ours is called: they are brought up to date when Lua
 * begins, and after its waits. */
static inline void script_statistics_refresh(void)
{
    if (clock_now.now_ms >= script_statistics_due_ms) {
        script_statistics_update();
    }
}

#endif
