/* Bytes that a function called by FFI gives back. */
#include "lua/vm/scratch.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/fatal.h"

enum { SCRATCH_LEAST = 4096, SCRATCH_KEPT = 1 << 20 };

/* One for each thread: a worker thread (run_worker_thread) has a VM of its own. */
static __thread char *scratch;
static __thread size_t scratch_size;

static pthread_once_t scratch_once = PTHREAD_ONCE_INIT;
static pthread_key_t scratch_key; /* whose destructor frees that of a thread that ends */

static void scratch_begin(void)
{
    pthread_key_create(&scratch_key, free);
}

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
        pthread_once(&scratch_once, scratch_begin);
        pthread_setspecific(scratch_key, scratch);
    }
    return scratch;
}
