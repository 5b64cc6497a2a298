/* latency: a histogram of durations: 64 steps for each power of two of nanoseconds. */

#include "latency.h"

enum { STEPS = 64 * 64 };

static uint32_t steps[STEPS];
static uint64_t total;

static unsigned step_index(uint64_t ns)
{
    unsigned exponent;

    if (ns < 64)
        return (unsigned) ns;
    exponent = 63 - (unsigned) __builtin_clzll(ns);
    return (exponent - 5) * 64 + (unsigned) ((ns >> (exponent - 6)) & 63);
}

/* The middle of what falls into a step, in microseconds. */
static double step_us(unsigned index)
{
    unsigned shift = index / 64 - (index >= 64);
    uint64_t low = index < 64 ? index : (uint64_t) (64 + index % 64) << shift;

    return ((double) low + (double) (1ull << shift) / 2) / 1000;
}

void latency_add(uint64_t ns)
{
    steps[step_index(ns)]++;
    total++;
}

double latency_us(double part)
{
    uint64_t rank = (uint64_t) ((double) total * part), seen = 0;

    if (total > 0 && rank >= total)
        rank = total - 1;
    for (unsigned i = 0; i < STEPS; i++) {
        seen += steps[i];
        if (seen > rank)
            return step_us(i);
    }
    return 0;
}
