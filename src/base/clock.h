/* The cached clock: read once per turn of the loop, with the formatted times that logs and headers
   need. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#include "base/str.h"

/* One reading. time.lua knows the first members by FFI. The formatted times change only when the
 * second changes. */
struct clock {
    uint64_t now_ms;       /* monotonic, milliseconds; deadlines use it */
    time_t seconds;        /* since the epoch */
    unsigned milliseconds; /* 0 to 999, of the wall clock */
    int gmt_offset_min;    /* minutes east of UTC */
    /* Formatted times without NUL, of fixed lengths; valid until the next clock_update. */
    char http_date[29];   /* Sun, 06 Nov 1994 08:49:37 GMT */
    char log_local[26];   /* 22/Jul/2026:10:11:12 +0000 */
    char error_local[19]; /* 2026/07/22 10:11:12 */
    char iso8601[25];     /* 2026-07-22T10:11:12+00:00 */
    uint64_t now_ns;      /* now_ms in nanoseconds */
};

extern struct clock clock_now; /* of this process */

/* Reads the clocks; cheap while the second has not changed. Called by the loop once a turn. */
void clock_update(void);
/* The monotonic clock now, in nanoseconds, for measurements within a turn. */
uint64_t clock_read_ns(void);
/* A counter of constant but unknown rate: for the ratio of two intervals. Costs a few
 * instructions. */
static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return clock_read_ns();
#endif
}
/* Milliseconds since clock_update. */
uint64_t clock_age_ms(void);

/* The format of log_local for any time: "22/Jul/2026:10:11:12 +0000", without NUL. */
#define CLOCK_LOG_LENGTH 26
void clock_log_format(char *at, time_t when);

#define CLOCK_STR(field) ((struct str){clock_now.field, sizeof(clock_now.field)})

#endif
