/* Metrics as one JSON document in the format of nginx Plus' former `status`, for monitors and pages
 * that know that format. */
#include <unistd.h>

#include "config.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/shm.h"
#include "cache/cache.h"
#include "http/client/connection.h"
#include "shared/metrics/counters.h"
#include "shared/metrics/json.h"
#include "http/modules/status/metrics/metrics.h"
#include "http/request/request.h"
#include "shared/metrics/peers.h"
#include "server/generation.h"
#include "shared/limit/zone.h"
#include "upstream/peer.h"

#define SHAPE_VERSION 8 /* version of the format */

/* ---- requests ---- */

static void write_series(struct json *json, const char *name, enum series_kind kind)
{
    json_open(json, str_of(name), '{');
    for (unsigned i = 0; i < metrics_series_count(); i++) {
        struct str label;

        if (metrics_series_label(i, &label) == kind) {
            json_open(json, label, '{');
            json_put_series(json, kind, i, kind == SERIES_SERVER);
            json_close(json, '}');
        }
    }
    json_close(json, '}');
}

/* ---- groups ---- */

static void put_peer(struct json *json, const struct shown_peer *shown)
{
    json_open(json, STR_NONE, '{');
    json_put_number(json, "id", shown->id);
    json_put_peer(json, shown->of, shown->peer);
    json_close(json, '}');
}

static void write_groups(struct json *json, const struct upstream_subsystem *subsystem)
{
    struct vec peers = shown_peers(subsystem, json->arena);
    bool is_open = false;

    json_open(json, STR("upstreams"), '{');
    vec_each(const struct shown_peer, shown, &peers) {
        if (shown->id == 0) {
            if (is_open) {
                json_close(json, ']');
                json_close(json, '}');
            }
            is_open = true;
            json_open(json, shown->group, '{');
            json_open(json, STR("peers"), '[');
        }
        if (shown->peer != NULL) {
            put_peer(json, shown);
        }
    }
    if (is_open) {
        json_close(json, ']');
        json_close(json, '}');
    }
    json_close(json, '}');
}

/* ---- limits ---- */

static void write_limits(struct json *json, const char *name, const char *protocol, bool delays)
{
    json_open(json, str_of(name), '{');
    for (const struct limit_zone *zone = limit_zones_all(&generation_now->conf); zone != NULL;
         zone = zone->beside) {
        if (zone->kind->delays == delays && str_is(str_of(protocol), zone->kind->protocol)) {
            json_open(json, zone->zone->name, '{');
            limit_counts_put(json, zone);
            json_close(json, '}');
        }
    }
    json_close(json, '}');
}

static void write_stream(struct json *json)
{
    json_open(json, STR("stream"), '{');
    write_groups(json, &upstream_stream);
    write_limits(json, "limit_conns", "stream", false);
    json_close(json, '}');
}

/* ---- the rest ---- */

static void put_cache(const struct cache *cache, void *arg)
{
    struct json *json = arg;

    json_open(json, cache->name, '{');
    json_put_cache(json, cache);
    json_close(json, '}');
}

static void write_zones(struct json *json)
{
    json_open(json, STR("slabs"), '{');
    for (const struct zone *zone = generation_now->zones; zone != NULL; zone = zone->next) {
        if (zone->slab != NULL) {
            json_open(json, zone->name, '{');
            json_put_slab(json, zone);
            json_close(json, '}');
        }
    }
    json_close(json, '}');
}

static void write_service(struct json *json, struct request *request)
{
    char address[ADDR_TEXT_MAX];

    json_put_number(json, "version", SHAPE_VERSION);
    json_put_string(json, "nginx_version", STR(NGINX_COMPAT_VERSION));
    json_put_string(json, "portunus_version", STR(PORTUNUS_VERSION));
    json_put_string(json, "address",
                    (struct str){address, addr_format(connection_local(request->connection), false,
                                                      address)});
    json_put_number(json, "generation", generation_now->number);
    json_put_number(json, "timestamp",
                    (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds);
    json_put_number(json, "pid", (uint64_t) getpid());
    json_put_number(json, "ppid", (uint64_t) getppid());
}

static void write_connections(struct json *json)
{
    struct slot_counters sum;

    counters_sum(&sum);
    json_open(json, STR("connections"), '{');
    json_put_connections(json, &sum);
    json_close(json, '}');
    json_open(json, STR("ssl"), '{');
    json_put_tls(json, &sum);
    json_close(json, '}');
    json_open(json, STR("requests"), '{');
    json_put_requests(json, &sum);
    json_close(json, '}');
}

void metrics_write_status(struct buf *out, struct request *request)
{
    struct json json = {.out = out, .arena = &request->arena};

    json_open(&json, STR_NONE, '{');
    write_service(&json, request);
    write_connections(&json);
    write_zones(&json);
    write_series(&json, "server_zones", SERIES_SERVER);
    write_series(&json, "location_zones", SERIES_ZONE);
    write_groups(&json, &upstream_http);
    write_limits(&json, "limit_reqs", "http", true);
    write_limits(&json, "limit_conns", "http", false);
    write_stream(&json);
    json_open(&json, STR("caches"), '{');
    cache_each(generation_now, put_cache, &json);
    json_close(&json, '}');
    json_close(&json, '}');
}
