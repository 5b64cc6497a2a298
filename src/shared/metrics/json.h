/* Figures as members of JSON, in the words of nginx Plus: what several modules show. */
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

/* ---- members of an object that is open ---- */

/* Requests or sessions of a series of this kind, since it was reset; all 0 of SERIES_NONE.
 * has_progress: and how many are in progress. */
void json_put_series(struct json *json, enum series_kind kind, unsigned series, bool has_progress);

/* All of a peer but its id. */
void json_put_peer(struct json *json, const struct upstream_group *group, const struct peer *peer);

void json_put_cache(struct json *json, const struct cache *cache);
void json_put_slab(struct json *json, const struct zone *zone);
void json_put_connections(struct json *json, const struct slot_counters *counters);
void json_put_tls(struct json *json, const struct slot_counters *counters);
void json_put_requests(struct json *json, const struct slot_counters *counters);

/* A time as "2026-11-28T17:10:18.123Z", from milliseconds of the epoch. */
void json_put_time(struct json *json, const char *name, uint64_t ms);

#endif
