/* The newest lines of the error log, kept in memory until a script takes them
 * (ngx.errlog.get_logs). */
#ifndef LUA_PROCESS_CAPTURE_H
#define LUA_PROCESS_CAPTURE_H

#include <stddef.h>

#include "base/arena.h"

/* A line costs its bytes and a struct kept_line; of those that do not fit any more the oldest go.
 */
struct script_capture;

/* Takes lines from here on, until the arena is freed. In a worker it begins with what the master
 * had. */
struct script_capture *script_capture_new(struct arena *arena, size_t size);

/* From now on all lines of this process are kept; before, those that scripts write. NULL is fine.
 */
void script_capture_begin(struct script_capture *capture);

#endif
