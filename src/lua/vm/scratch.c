/* Bytes that a function called by FFI gives back. */
#include "lua/vm/scratch.h"

#include <stdlib.h>

#include "base/fatal.h"

enum { SCRATCH_LEAST = 4096, SCRATCH_KEPT = 1 << 20 };

/* One for each thread: a worker thread (run_worker_thread) has a VM of its own. */
static __thread char *scratch;
static __thread size_t scratch_size;

char *script_scratch(size_t size)
{
    size_t wanted = size < SCRATCH_LEAST ? SCRATCH_LEAST : size;

    if (wanted > scratch_size || scratch_size > SCRATCH_KEPT) {
        free(scratch);
        scratch = malloc(wanted);
        if (scratch == NULL) {
            fatal_no_memory(wanted);
        }
        scratch_size = wanted;
    }
    return scratch;
}
