/* The pid file: one number and a newline. */
#ifndef SERVER_PROCESS_PID_FILE_H
#define SERVER_PROCESS_PID_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/str.h"

/* Writes the number of this process, mode 0644. Where possible it writes another file and renames
 * it to PATH, so that readers never see half of it. False after a message. Paths are
 * NUL-terminated. */
bool pid_file_write(struct str path);
/* -t: checks that the file can be opened or created; nothing is written. False after a message. */
bool pid_file_touch(struct str path);
/* Reads the number; 0 after a message. */
pid_t pid_file_read(struct str path);
/* Removes the file, unless it is the file that was written last, under another name. A failure is
   logged as an alert. */
void pid_file_remove(struct str path);

/* PATH.oldbin, which holds the older master's number during an upgrade. */
struct str pid_file_old_name(struct arena *arena, struct str path);
bool pid_file_rename(struct str from, struct str to);

#endif
