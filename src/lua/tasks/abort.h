/* Clients that leave while Lua works for them: what ngx.on_abort asked for. */
#ifndef LUA_TASKS_ABORT_H
#define LUA_TASKS_ABORT_H

#include "lua/vm/thread.h"

/* Of one run. */
struct script_abort {
    struct script_thread *entry; /* that asked for a callback; NULL: none did */
    int callback;                /* a reference, until it was called */
};

void script_abort_begin(struct script_abort *abort);
/* The run is over. */
void script_abort_end(struct script_abort *abort, struct script_subject *subject);

/* The client has left: runs the callback as a thread beside those that there are. False: there is
 * none, or it could not be started. */
bool script_abort_tell(struct script_abort *abort, struct script_subject *subject);

/* ngx.on_abort, where it may be called in these phases. */
int script_on_abort(lua_State *L, struct script_thread *thread, struct script_abort *abort,
                    uint32_t phases);

#endif
