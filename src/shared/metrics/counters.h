/* Counters of requests by what they were for: series, of which each worker writes a cell of its
 * own. */
#ifndef SHARED_METRICS_COUNTERS_H
#define SHARED_METRICS_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/shm.h"
#include "base/str.h"
#include "shared/metrics/times.h"

/* What a series is about. */
enum series_kind {
    SERIES_SERVER,        /* label: its name */
    SERIES_ZONE,          /* a `status_zone` of locations */
    SERIES_PEER,          /* group, NUL, peer */
    SERIES_STREAM_SERVER, /* a `status_zone` of servers of stream: sessions */
    SERIES_STREAM_PEER,   /* group, NUL, peer of stream */
    SERIES_KINDS
};

#define SERIES_MOST 1024 /* that there may be */
#define SERIES_LABEL 160 /* bytes of its label, or labels */
#define SERIES_NONE SERIES_MOST

/* Statuses that are counted one by one, 200 first; others as the last, "000". */
#define METRICS_CODES 44
extern const uint16_t metrics_codes[METRICS_CODES];

/* One worker's counts of one series. Raised plainly, by that worker alone; only ever up. */
struct metrics_cell {
    uint64_t time_ms;  /* sum of times */
    uint64_t received; /* bytes */
    uint64_t sent;     /* bytes */
    uint64_t codes[METRICS_CODES];
    uint64_t times[TIMES_CELLS]; /* requests by time, each in one */
    uint64_t began; /* requests that were begun, of those that are counted from there on */
    uint64_t ended; /* those of them that have ended */
    uint64_t all;   /* those that were not; in a sum: these and those that were begun */
};

/* One request. */
struct metrics_sample {
    unsigned status; /* 0 = none */
    uint64_t time_ms;
    uint64_t received;
    uint64_t sent;
    bool has_begun; /* metrics_begin has counted it */
};

/* A label of two parts in room of SERIES_LABEL bytes; a part that is too long is cut, and ends with
 * a hash of all of it. */
struct str metrics_peer_label(char *text, struct str group, struct str peer);

/* ---- when the configuration is read ---- */

/*
 * Lays the counters out in the zone, or finds those of former generations there; the functions
 * below are about these from then on, in this process. Again in each worker. False: the zone is too
 * small.
 */
bool metrics_use(struct zone *zone);

/* The number of a series, a new one where there is none yet; SERIES_NONE: there are too many. Also
 * in workers. */
unsigned metrics_series(enum series_kind kind, struct str label);

/* ---- in a worker ---- */

/* A place for this worker's cells: one of its own, or that of a worker that is gone. */
void metrics_worker_start(void);
void metrics_worker_end(void);

/* Of this worker, by series; NULL until one is needed. The last is of SERIES_NONE, and stays NULL.
 */
extern struct metrics_cell *metrics_cells[SERIES_MOST + 1];
struct metrics_cell *metrics_make_cell(unsigned series);

/* Does this worker count? */
extern bool metrics_is_on;

/* The place of a status in `codes`. */
unsigned metrics_code_index(unsigned status);

/* One has begun, which metrics_count ends. */
static inline void metrics_begin(unsigned series)
{
    struct metrics_cell *cell = metrics_cells[series];

    if (cell != NULL || (cell = metrics_make_cell(series)) != NULL) {
        cell->began++;
    }
}

/* Counts: on the way of every request. Where there is no room any more, nothing is, and
 * metrics_lost() counts that. */
static inline void metrics_count(unsigned series, const struct metrics_sample *sample)
{
    struct metrics_cell *cell = metrics_cells[series];

    if (cell == NULL && (cell = metrics_make_cell(series)) == NULL) {
        return;
    }
    cell->codes[sample->status == 200 ? 0 : metrics_code_index(sample->status)]++;
    cell->times[times_cell(sample->time_ms)]++;
    cell->time_ms += sample->time_ms;
    cell->received += sample->received;
    cell->sent += sample->sent;
    cell->ended += sample->has_begun;
    cell->all += !sample->has_begun;
}

/* An attempt at a peer has begun, in a worker that counts. Gives its series, for metrics_count. */
unsigned metrics_begin_peer(enum series_kind kind, struct str group, struct str peer);

/* ---- reading ---- */

unsigned metrics_series_count(void);
/* What a series is about. The label lives as long as the process. */
enum series_kind metrics_series_label(unsigned series, struct str *label);
/* The sum over all workers there ever were. */
void metrics_sum(unsigned series, struct metrics_cell *sum);
/* The sum since it was reset last; what has begun and not ended is in progress, whatever was reset.
 * `all` never falls otherwise. */
void metrics_since(unsigned series, struct metrics_cell *sum);
/* Makes metrics_since begin again; sums stay. False: there is no memory for it. */
bool metrics_reset(unsigned series);
/* The number of a series that there is; SERIES_NONE: there is none. */
unsigned metrics_find(enum series_kind kind, struct str label);
/* Since when they count: milliseconds of the epoch. */
uint64_t metrics_began_ms(void);
/* Series and samples that found no room. */
uint64_t metrics_lost(void);

#endif
