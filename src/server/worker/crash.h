/* A fatal signal in a worker leaves a line in the error log. Private to this package. */
#ifndef SERVER_WORKER_CRASH_H
#define SERVER_WORKER_CRASH_H

#include "base/log.h"

/* Handles the signals of crashes; after that a signal has its usual effect. */
void crash_watch(void);

/* How many stack frames are written after that line, and to which file; NULL: to the file of the
 * line. */
void crash_trace(const struct log_file *file, unsigned frames);
#define CRASH_FRAMES_MOST 200

#endif
