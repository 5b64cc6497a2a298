/* What the system tells of its load: texts of /proc as numbers. */
#ifndef HTTP_MODULES_ACCESS_SYSGUARD_SYSTEM_H
#define HTTP_MODULES_ACCESS_SYSGUARD_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* Time that all processors have spent since the start, in ticks. */
struct cpu_time {
    uint64_t busy;
    uint64_t all;
};

struct memory_state {
    uint64_t free_bytes; /* free, in buffers and in the page cache */
    uint64_t swap_total; /* bytes */
    uint64_t swap_free;
};

/* Each takes the text of a file of that name; false: it does not say it. */
bool system_read_load(struct str loadavg, uint64_t *thousandths); /* of one minute */
bool system_read_cpu(struct str stat, struct cpu_time *out);
bool system_read_memory(struct str meminfo, struct memory_state *out);

/* Reads a small file of /proc, which never waits for a disk; empty when it cannot. */
struct str system_text(const char *path, char *room, size_t size);

#endif
