/* The cells that times are counted in, and the buckets of histograms that they are parts of. */
#ifndef SHARED_METRICS_TIMES_H
#define SHARED_METRICS_TIMES_H

#include <stdint.h>

/* A native histogram of Prometheus has 2^TIMES_SCHEMA buckets for each power of two of seconds:
 * bucket n ends at 2^(n / 2^TIMES_SCHEMA), which belongs to it. */
#define TIMES_SCHEMA 3
/* What is counted as no time lies below this, in seconds: the clock has milliseconds. It is the end
 * of a bucket. */
#define TIMES_ZERO_SECONDS (1.0 / 2048)

/* Upper ends of the buckets of a classic histogram, in milliseconds; the last bucket has no end. */
#define TIMES_CLASSIC 12
extern const uint16_t times_classic_ms[TIMES_CLASSIC - 1];

/* Milliseconds that no end of a bucket parts, of either kind: both histograms are sums of the same
 * counts. */
struct time_cell {
    uint32_t end_ms; /* the last in it */
    int16_t bucket;  /* of the native histogram; of cell 0, which is no time, none */
    uint8_t classic; /* bucket of the classic one */
};

#define TIMES_CELLS 175 /* up to 2^13 s; what took longer is in the last, as are the next 9% */
#define TIMES_DIRECT 16 /* cells that have one millisecond each, from 0 on */
extern struct time_cell time_cells[TIMES_CELLS];

/* Fills the table, once in a process and those that it forks. */
void times_init(void);

/* The cell of a time from TIMES_DIRECT on. */
unsigned times_search(uint64_t time_ms);

static inline unsigned times_cell(uint64_t time_ms)
{
    return time_ms < TIMES_DIRECT ? (unsigned) time_ms : times_search(time_ms);
}

/* The classic histogram of counts in cells: how many took as long as a bucket's end at most. The
 * last is all of them. */
void times_classic(const uint64_t times[TIMES_CELLS], uint64_t counts[TIMES_CLASSIC]);

/* Buckets of the native histogram that anything is counted in, from TIMES_FIRST on. */
#define TIMES_FIRST (-79)
#define TIMES_BUCKETS 185
/* The native histogram: counts of each bucket, without those of no time, which are cell 0. */
void times_native(const uint64_t times[TIMES_CELLS], uint64_t counts[TIMES_BUCKETS]);

#endif
