/* Memory of one size that a worker frequently allocates and frees: some of it is kept, newest
 * first, so that it is still in the CPU's cache. For the main thread. */
#ifndef BASE_SPARES_H
#define BASE_SPARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/poison.h"

/* All zero: empty. Kept memory is not freed before the process ends. */
struct spares {
    void *first; /* each piece begins with the address of the next */
    unsigned count;
};

/* Gives `size` bytes, not cleared; the size must be the same at each call. Ends the process when
 * there is no memory. */
static inline void *spares_take(struct spares *spares, size_t size)
{
    void *memory = spares->first;

    if (memory != NULL) {
        spares->first = *(void **) memory;
        spares->count--;
    } else if ((memory = malloc(size)) == NULL) {
        fatal_no_memory(size);
    }
    return memory;
}

/* Keeps the memory if fewer than `most` pieces are kept; otherwise, and always with
 * AddressSanitizer, frees it. */
static inline void spares_give(struct spares *spares, void *memory, unsigned most)
{
#ifdef POISON_IS_ON
    bool is_kept = false;
#else
    bool is_kept = spares->count < most;
#endif

    if (!is_kept) {
        free(memory);
        return;
    }
    *(void **) memory = spares->first;
    spares->first = memory;
    spares->count++;
}

#endif
