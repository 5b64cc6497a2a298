/* The cells in which times are counted: see times.h. */
#include "shared/metrics/times.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* From one millisecond to two hours. */
enum { OCTAVE = 1 << TIMES_SCHEMA, FIRST_BUCKET = -10 * OCTAVE, LAST_BUCKET = 13 * OCTAVE };

const uint16_t times_classic_ms[TIMES_CLASSIC - 1] = {5,   10,   25,   50,   100,  250,
                                                      500, 1000, 2500, 5000, 10000};

struct time_cell time_cells[TIMES_CELLS];

static unsigned classic_of(uint32_t time_ms)
{
    unsigned bucket = 0;

    while (bucket < TIMES_CLASSIC - 1 && time_ms > times_classic_ms[bucket]) {
        bucket++;
    }
    return bucket;
}

/* Adds a cell, unless it would contain no whole millisecond. */
static unsigned add_cell(unsigned count, uint32_t end_ms, int bucket)
{
    if (end_ms > time_cells[count - 1].end_ms) {
        assert(count < TIMES_CELLS);
        time_cells[count++] =
            (struct time_cell){end_ms, (int16_t) bucket, (uint8_t) classic_of(end_ms)};
    }
    return count;
}

/* Adds the cells of a bucket of the native histogram, which the ends of classic buckets divide. */
static unsigned add_bucket(unsigned count, uint32_t end_ms, int bucket)
{
    for (unsigned i = 0; i < TIMES_CLASSIC - 1 && times_classic_ms[i] < end_ms; i++) {
        count = add_cell(count, times_classic_ms[i], bucket);
    }
    return add_cell(count, end_ms, bucket);
}

void times_init(void)
{
    unsigned count = 1; /* the first one is for zero, and initialised */

    if (time_cells[1].end_ms != 0) {
        return;
    }
    for (int bucket = FIRST_BUCKET; bucket <= LAST_BUCKET; bucket++) {
        count = add_bucket(count, (uint32_t) (1000 * exp2((double) bucket / OCTAVE)), bucket);
    }
    count = add_bucket(count, UINT32_MAX, LAST_BUCKET + 1);
    assert(count == TIMES_CELLS);
    assert(time_cells[1].bucket == TIMES_FIRST);
    assert(LAST_BUCKET + 1 == TIMES_FIRST + TIMES_BUCKETS - 1);
}

unsigned times_search(uint64_t time_ms)
{
    unsigned low = TIMES_DIRECT;
    unsigned high = TIMES_CELLS - 1;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (time_cells[middle].end_ms < time_ms) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void times_classic(const uint64_t times[TIMES_CELLS], uint64_t counts[TIMES_CLASSIC])
{
    memset(counts, 0, TIMES_CLASSIC * sizeof(*counts));
    for (unsigned i = 0; i < TIMES_CELLS; i++) {
        counts[time_cells[i].classic] += times[i];
    }
    for (unsigned i = 1; i < TIMES_CLASSIC; i++) {
        counts[i] += counts[i - 1];
    }
}

void times_native(const uint64_t times[TIMES_CELLS], uint64_t counts[TIMES_BUCKETS])
{
    memset(counts, 0, TIMES_BUCKETS * sizeof(*counts));
    for (unsigned i = 1; i < TIMES_CELLS; i++) {
        counts[time_cells[i].bucket - TIMES_FIRST] += times[i];
    }
}
