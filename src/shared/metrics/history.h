/* The history of counters: points of each series for plots, in a zone of shared memory. */
#ifndef SHARED_METRICS_HISTORY_H
#define SHARED_METRICS_HISTORY_H

#include "base/json.h"
#include "shared/metrics/counters.h"

#define HISTORY_POINTS 120 /* that are kept for each row */
#define HISTORY_ROWS 512   /* servers, zones and upstreams that have points; others have none */

/* The size of a zone for it. Pages of unused rows are never touched. */
size_t history_zone_size(void);

/* Finds or creates the points in the zone. To be called while the configuration is read and in each
 * worker, after metrics_use. False: the zone is too small. */
bool history_use(struct zone *zone);

/*
 * From now on this worker takes a point for each step_ms. While the service is idle it checks only
 * every fourth step, so the next point is longer. One worker calls this; if two do for a while,
 * each point is taken by one of them.
 */
void history_start(uint64_t step_ms);
void history_stop(void);

/* Takes a point if a step has passed since the last one. Costs as much as a scrape of `metrics`.
 * Never waits. */
void history_look(uint64_t step_ms);

/* Writes members of the open object: all points after that number, and errors by kind. 0: all that
 * are kept. */
void history_put(struct json *json, uint64_t after);

#endif
