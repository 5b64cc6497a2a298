/* The pid file: one number and a newline. */
#ifndef SERVER_PROCESS_PID_FILE_H
#define SERVER_PROCESS_PID_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/str.h"

/* Writes the number of this process, mode 0644, so that readers never see half of it: by another
 * file that takes the place of PATH, where that can be. False after a message. Paths are
 * NUL-terminated. */
bool pid_file_write(struct str path);
/* -t: it can be opened or created; nothing is written. False after a message. */
bool pid_file_touch(struct str path);
/* Reads the number; 0 after a message. */
pid_t pid_file_read(struct str path);
/* Removes it, unless it is the file that was written last, by another name; a failure is an alert.
 */
void pid_file_remove(struct str path);

/* PATH.oldbin, where the older master's number lives during an upgrade. */
struct str pid_file_old_name(struct arena *arena, struct str path);
bool pid_file_rename(struct str from, struct str to);

#endif
