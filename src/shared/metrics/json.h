/* Figures as members of JSON, with the names of nginx Plus, for several modules. */
#ifndef SHARED_METRICS_JSON_H
#define SHARED_METRICS_JSON_H

#include "base/json.h"
#include "shared/metrics/counters.h"

struct cache;
struct peer;
struct slot_counters;
struct upstream_group;
struct upstream_subsystem;
struct zone;

/* ---- members of the open object ---- */

/* Requests or sessions of a series of this kind since its last reset; all 0 for SERIES_NONE.
 * has_progress: includes how many are in progress. */
void json_put_series(struct json *json, enum series_kind kind, unsigned series, bool has_progress);

/* All members of a peer, except its id. */
void json_put_peer(struct json *json, const struct upstream_group *group, const struct peer *peer);

void json_put_cache(struct json *json, const struct cache *cache);
void json_put_slab(struct json *json, const struct zone *zone);
void json_put_connections(struct json *json, const struct slot_counters *counters);
void json_put_tls(struct json *json, const struct slot_counters *counters);
void json_put_requests(struct json *json, const struct slot_counters *counters);

/* A time as "2026-11-28T17:10:18.123Z", from milliseconds since the epoch. */
void json_put_time(struct json *json, const char *name, uint64_t ms);

#endif
