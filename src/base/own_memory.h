/* How much memory this process uses, according to the kernel. */
#ifndef BASE_OWN_MEMORY_H
#define BASE_OWN_MEMORY_H

#include <stdint.h>

/*
 * Bytes of RAM that only this process uses: no files and no shared memory. Read at most once a
 * second, by the cached clock. 0: not known.
 */
uint64_t own_memory(void);

#endif
