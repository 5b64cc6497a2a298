/* latency: a histogram of durations, exact to 1.6%. */

#ifndef BENCH_LATENCY_H
#define BENCH_LATENCY_H

#include <stdint.h>

/* Counts one duration. */
void latency_add(uint64_t ns);

/* The duration, in microseconds, that the given part (0 to 1) of those counted does not exceed;
 * 0 when none was counted. */
double latency_us(double part);

#endif
