/* How much memory this process takes, as the kernel counts it. */
#ifndef BASE_OWN_MEMORY_H
#define BASE_OWN_MEMORY_H

#include <stdint.h>

/*
 * Bytes of RAM that belong to this process alone: neither files nor memory that is shared with
 * others. The kernel is asked once a second at most, by the cached clock. 0: it does not tell.
 */
uint64_t own_memory(void);

#endif
