/* Counters of the service, which FFI code of users reads. */
#include "lua/vm/statistics.h"

#include "server/generation.h"

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
