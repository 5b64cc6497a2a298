/* The cells in which times are counted, and the buckets of histograms that consist of them. */
#ifndef SHARED_METRICS_TIMES_H
#define SHARED_METRICS_TIMES_H

#include <stdint.h>

/* A native histogram of Prometheus has 2^TIMES_SCHEMA buckets for each power of two of seconds:
 * bucket n ends at 2^(n / 2^TIMES_SCHEMA), inclusively. */
#define TIMES_SCHEMA 3
/* Times below this, in seconds, are counted as zero: the clock has milliseconds. It is the end of a
 * bucket. */
#define TIMES_ZERO_SECONDS (1.0 / 2048)

/* Upper ends of the buckets of a classic histogram, in milliseconds; the last bucket is
   unbounded. */
#define TIMES_CLASSIC 12
extern const uint16_t times_classic_ms[TIMES_CLASSIC - 1];

/* A range of milliseconds that contains no end of a bucket of either kind, so that both histograms
 * are sums of the same counts. */
struct time_cell {
    uint32_t end_ms; /* the last millisecond in it */
    int16_t bucket;  /* bucket of the native histogram; none for cell 0, which is zero */
    uint8_t classic; /* bucket of the classic one */
};

#define TIMES_CELLS                                                                                \
    175 /* up to 2^13 s; longer times are in the last cell, whose native bucket is the next 9% */
#define TIMES_DIRECT 16 /* cells of one millisecond each, from 0 on */
extern struct time_cell time_cells[TIMES_CELLS];

/* Fills the table; once per process, also for its children. */
void times_init(void);

/* The cell of a time of at least TIMES_DIRECT. */
unsigned times_search(uint64_t time_ms);

static inline unsigned times_cell(uint64_t time_ms)
{
    return time_ms < TIMES_DIRECT ? (unsigned) time_ms : times_search(time_ms);
}

/* Computes the classic histogram from counts in cells: how many times are at most the bucket's end.
 * The last is the total. */
void times_classic(const uint64_t times[TIMES_CELLS], uint64_t counts[TIMES_CLASSIC]);

/* Buckets of the native histogram that can have counts, from TIMES_FIRST on. */
#define TIMES_FIRST (-79)
#define TIMES_BUCKETS 185
/* Computes the native histogram: counts of each bucket, without those of zero, which are in cell
   0. */
void times_native(const uint64_t times[TIMES_CELLS], uint64_t counts[TIMES_BUCKETS]);

#endif
