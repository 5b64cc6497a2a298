/* What the counters were over time: points of each series for plots, in a zone of shared memory. */
#ifndef SHARED_METRICS_HISTORY_H
#define SHARED_METRICS_HISTORY_H

#include "base/json.h"
#include "shared/metrics/counters.h"

#define HISTORY_POINTS 120 /* that are kept of each row */
#define HISTORY_ROWS 512   /* servers, zones and upstreams that have points; others have none */

/* What a zone needs for it. Pages that no row uses are never touched. */
size_t history_zone_size(void);

/* Finds the points in the zone, or makes room for them. Once when the configuration is read and
 * again in each worker, after metrics_use. False: the zone is too small. */
bool history_use(struct zone *zone);

/*
 * Takes points in this worker from now on, one for each step_ms. While the service is idle it looks
 * only every fourth step: the point that follows is longer. One worker calls this; where two do for
 * a while, each point is taken by one of them.
 */
void history_start(uint64_t step_ms);
void history_stop(void);

/* Takes a point if a step has passed since the last. Costs as much as a scrape of `metrics`. Never
 * waits. */
void history_look(uint64_t step_ms);

/* Members of the object that is open: all points after that number, and errors by kind. 0: all that
 * are kept. */
void history_put(struct json *json, uint64_t after);

#endif
