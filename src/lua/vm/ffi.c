/* For functions that are called by FFI: bytes that they give back, and counters that FFI code of users reads. */
#include "lua/vm/scratch.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "lua/vm/statistics.h"
#include "server/generation.h"

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

/* ---- counters of the service, for FFI code of users ---- */

#define EVERY_MS 10

uint64_t script_statistics_due_ms;

static uint64_t accepted, handled, requests, active, reading, writing, waiting;

/* What scripts know: ffi.cdef "uint64_t *ngx_stat_active;". */
extern uint64_t *ngx_stat_accepted, *ngx_stat_handled, *ngx_stat_requests, *ngx_stat_active,
    *ngx_stat_reading, *ngx_stat_writing, *ngx_stat_waiting;
uint64_t *ngx_stat_accepted = &accepted;
uint64_t *ngx_stat_handled = &handled;
uint64_t *ngx_stat_requests = &requests;
uint64_t *ngx_stat_active = &active;
uint64_t *ngx_stat_reading = &reading;
uint64_t *ngx_stat_writing = &writing;
uint64_t *ngx_stat_waiting = &waiting;

void script_statistics_update(void)
{
    struct slot_counters sum;

    script_statistics_due_ms = clock_now.now_ms + EVERY_MS;
    counters_sum(&sum);
    accepted = sum.accepted;
    handled = sum.handled;
    requests = sum.requests;
    active = sum.active;
    reading = sum.reading;
    writing = sum.writing;
    waiting = sum.waiting;
}
