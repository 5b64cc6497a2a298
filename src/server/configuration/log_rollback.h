/* Tengine's "pipe:rollback": a process that writes a log and rotates it, by size and by time.
 * Private to this package. */
#ifndef SERVER_CONFIGURATION_LOG_ROLLBACK_H
#define SERVER_CONFIGURATION_LOG_ROLLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

struct log_rollback {
    struct str path;      /* full, NUL-terminated */
    uint64_t interval_ms; /* between two rotations; 0 = not by time */
    uint64_t adjust_ms; /* a rotation by time is delayed by a random part of this, so that hosts do
                           not all rotate at once */
    uint64_t size_max;  /* bytes of the file; 0 = no limit */
    unsigned backups;   /* files that are kept: path.1 is the newest */
};

#define LOG_ROLLBACK_BACKUPS_MAX 1000

/*
 * Reads "PATH [interval=TIME] [baknum=NUMBER] [maxsize=SIZE] [adjust=TIME]", where the path is
 * relative to the prefix; memory from the arena. False with a reason in *error.
 */
bool log_rollback_parse(struct arena *arena, struct str prefix, struct str text,
                        struct log_rollback *out, struct str *error);

/* Renames the file and its backups; the oldest one is overwritten. A missing file is not an error.
 * Blocks for the disk. */
void log_rollback_rotate(const struct log_rollback *rollback);

/* Runs the process: copies `input` to the file until end-of-file. Gives the exit status. Blocks. */
int log_rollback_run(const struct log_rollback *rollback, int input);

#endif
