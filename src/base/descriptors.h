/* How many descriptors this process has open, and may have. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stdint.h>

/* RLIMIT_NOFILE. Read once, as is what the kernel counts: call these in a worker only, after its
 * limits were set. */
uint32_t descriptors_limit(void);
/*
 * How many more may be opened now. The kernel counts them since Linux 6.2. Before that those of the
 * first call are counted, and `connections`, those that are open now, tells how many came since.
 */
uint32_t descriptors_left(uint32_t connections);

#endif
