/* Memory of one size that a worker takes and gives back all the time: some of it is kept, newest
 * first, so that it is still in the processor's cache. Of the main thread. */
#ifndef BASE_SPARES_H
#define BASE_SPARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/poison.h"

/* All zero: empty. What is kept stays until the process ends. */
struct spares {
    void *first; /* each begins with the address of the next */
    unsigned count;
};

/* So many bytes, the same number at each call for these spares; not cleared. Ends the process when
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

/* The memory is kept if there is less than `most` of it; else, and where a sanitizer watches its
 * use, it is freed. */
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
