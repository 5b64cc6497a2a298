/* Counters of requests: each series has a cell for each worker. */
#ifndef SHARED_METRICS_COUNTERS_H
#define SHARED_METRICS_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/shm.h"
#include "base/str.h"
#include "shared/metrics/times.h"

/* What a series counts. */
enum series_kind {
    SERIES_SERVER,        /* label: its name */
    SERIES_ZONE,          /* a `status_zone` of locations */
    SERIES_PEER,          /* group, NUL, peer */
    SERIES_STREAM_SERVER, /* a `status_zone` of servers of stream: sessions */
    SERIES_STREAM_PEER,   /* group, NUL, peer of stream */
    SERIES_KINDS
};

#define SERIES_MOST 1024 /* most series */
#define SERIES_LABEL 160 /* bytes of a label, or of all labels of a series */
#define SERIES_NONE SERIES_MOST

/* Statuses with a counter of their own, from 200 on; all others are counted in the last one,
   "000". */
#define METRICS_CODES 44
extern const uint16_t metrics_codes[METRICS_CODES];

/* The counts of one worker for one series. Written by that worker only, without atomics; they never
   decrease. */
struct metrics_cell {
    uint64_t time_ms;  /* sum of the times */
    uint64_t received; /* bytes */
    uint64_t sent;     /* bytes */
    uint64_t codes[METRICS_CODES];
    uint64_t times[TIMES_CELLS]; /* requests by time; each is counted in one cell */
    uint64_t began;              /* requests that have begun, for kinds with metrics_begin */
    uint64_t ended;              /* of these, the ones that have ended */
    uint64_t all;                /* requests without metrics_begin; in a sum: these plus `began` */
};

/* One request. */
struct metrics_sample {
    unsigned status; /* 0 = none */
    uint64_t time_ms;
    uint64_t received;
    uint64_t sent;
    bool has_begun; /* metrics_begin has counted the request */
};

/* A label with two parts, in a buffer of SERIES_LABEL bytes; a part that is too long is shortened,
 * and ends with a hash of the whole part. */
struct str metrics_peer_label(char *text, struct str group, struct str peer);

/* ---- while the configuration is read ---- */

/*
 * Creates the counters in the zone, or uses those of earlier generations there; from then on the
 * functions below use them in this process. To be called in each worker, too. False: the zone is
 * too small.
 */
bool metrics_use(struct zone *zone);

/* The number of a series, which is created if necessary; SERIES_NONE: there are too many. Also in
 * workers. */
unsigned metrics_series(enum series_kind kind, struct str label);

/* ---- in a worker ---- */

/* Takes a sheet for this worker's cells: a new one, or that of a worker that has ended. */
void metrics_worker_start(void);
void metrics_worker_end(void);

/* The cells of this worker, by series; NULL until they are used. The last one, for SERIES_NONE, is
   always NULL. */
extern struct metrics_cell *metrics_cells[SERIES_MOST + 1];
struct metrics_cell *metrics_make_cell(unsigned series);

/* Does this worker count? */
extern bool metrics_is_on;

/* The index of a status in metrics_codes. */
unsigned metrics_code_index(unsigned status);

/* A request has begun; metrics_count ends it. */
static inline void metrics_begin(unsigned series)
{
    struct metrics_cell *cell = metrics_cells[series];

    if (cell != NULL || (cell = metrics_make_cell(series)) != NULL) {
        cell->began++;
    }
}

/* Counts one request; on the hot path. If the zone is full, only metrics_lost() counts it. */
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
/* The kind and label of a series. The label lives as long as the process. */
enum series_kind metrics_series_label(unsigned series, struct str *label);
/* The sum over all workers, including those that have ended. */
void metrics_sum(unsigned series, struct metrics_cell *sum);
/* The sum since the last reset; what is in progress is included regardless of resets. `all`
 * decreases only by a reset. */
void metrics_since(unsigned series, struct metrics_cell *sum);
/* Resets metrics_since; sums are not changed. False: there is no memory for it. */
bool metrics_reset(unsigned series);
/* The number of an existing series; SERIES_NONE: it does not exist. */
unsigned metrics_find(enum series_kind kind, struct str label);
/* Start of the counts: milliseconds since the epoch. */
uint64_t metrics_began_ms(void);
/* Number of series and samples that were not counted because the zone is full. */
uint64_t metrics_lost(void);

#endif
