/* How many descriptors this process has open, and may have. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stdint.h>

/* RLIMIT_NOFILE. The limit, and the kernel's count, are read once: call these in a worker only,
 * after its limits were set. */
uint32_t descriptors_limit(void);
/*
 * How many more descriptors may be opened now. Since Linux 6.2 the kernel gives the number of open
 * ones. Before that it is the number at the first call, corrected by `connections`, the connections
 * that are open now.
 */
uint32_t descriptors_left(uint32_t connections);

#endif
