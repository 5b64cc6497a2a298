/* Lines of access logs that wait to be written: one buffer for each file. */
#ifndef SHARED_LOG_FILE_H
#define SHARED_LOG_FILE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/log.h"
#include "conf/conf.h"
#include "event/loop.h"
#include "server/generation.h"

/* buffer=, flush= and gzip= of an access_log. All zero: lines are written at the end of each
   turn. */
struct log_buffering {
    size_t size;       /* bytes; 0 = none */
    uint64_t flush_ms; /* longest time that a line waits; 0 = no limit */
    int gzip_level;    /* 1 to 9; 0 = not compressed */
};

/* Lines for one file, shared by all access_log directives with its path. */
struct log_lines {
    struct log_file *file;
    struct log_buffering buffering;
    struct buf pending;      /* whole lines that are not written yet */
    struct deferred write;   /* runs at the end of this turn, when lines are not buffered */
    struct timer flush;      /* with flush= */
    uint64_t next_report_ms; /* failures are logged once a second */
    bool is_torn; /* only a part of a line was written to the disk: the next write ends that line
                     first */
};

/* The lines of this path. NULL after conf_error: the path has other buffering parameters
   already. */
struct log_lines *log_lines_for(struct conf *conf, const struct conf_node *node, struct str path,
                                const struct log_buffering *buffering);

/* To be called when a line was appended to pending, from this offset on. Writes lines that do not
 * fit, or schedules the write. */
void log_lines_added(struct log_lines *lines, size_t start);

/* Writes whole lines to a descriptor; false with errno, and *is_torn when a part was written. */
bool log_write_lines(int fd, struct str text, bool *is_torn);

#endif
