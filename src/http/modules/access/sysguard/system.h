/* Load and memory of the system: parses files of /proc. */
#ifndef HTTP_MODULES_ACCESS_SYSGUARD_SYSTEM_H
#define HTTP_MODULES_ACCESS_SYSGUARD_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Total time of all processors since the system started, in ticks. */
struct cpu_time {
    uint64_t busy;
    uint64_t all;
};

struct memory_state {
    uint64_t free_bytes; /* free memory, buffers and page cache */
    uint64_t swap_total; /* bytes */
    uint64_t swap_free;
};

/* Each takes the contents of the file of its parameter's name; false: the value is missing. */
bool system_read_load(struct str loadavg, uint64_t *thousandths); /* the average of one minute */
bool system_read_cpu(struct str stat, struct cpu_time *out);
bool system_read_memory(struct str meminfo, struct memory_state *out);

/* Reads a small file of /proc, which never waits for a disk; empty after an error. */
struct str system_text(const char *path, char *buffer, size_t size);

#endif
