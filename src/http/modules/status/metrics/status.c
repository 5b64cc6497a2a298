/* The numbers as one document of JSON, in the shape that nginx Plus' `status` has had: what monitors and pages read that know that. */
#include <unistd.h>

#include "config.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/shm.h"
#include "cache/cache.h"
#include "http/client/connection.h"
#include "http/modules/status/metrics/counters.h"
#include "http/modules/status/metrics/metrics.h"
#include "http/modules/status/metrics/peers.h"
#include "server/generation.h"
#include "shared/limit/zone.h"
#include "upstream/peer.h"

#define SHAPE_VERSION 8 /* of the data, as `status` counted */

/* ---- requests ---- */

static void put_responses(struct json *json, const struct metrics_cell *cell, uint64_t *total)
{
    uint64_t classes[6] = {0};

    *total = 0;
    for (unsigned i = 0; i < METRICS_CODES; i++) {
        unsigned class = metrics_codes[i] / 100;
        classes[class < 6 ? class : 0] += cell->codes[i];
        *total += cell->codes[i];
    }
    json_open(json, STR("responses"), '{');
    for (unsigned class = 1; class < 6; class ++) {
        const char name[] = {(char) ('0' + class), 'x', 'x', 0};
        json_put_number(json, name, classes[class]);
    }
    json_put_number(json, "total", *total - classes[0]);
    json_close(json, '}');
}

static void put_series(struct json *json, unsigned series)
{
    struct metrics_cell sum;
    uint64_t total;

    metrics_sum(series, &sum);
    put_responses(json, &sum, &total);
    json_put_number(json, "requests", total);
    json_put_number(json, "received", sum.received);
    json_put_number(json, "sent", sum.sent);
}

static void write_series(struct json *json, const char *name, enum series_kind kind)
{
    json_open(json, str_of(name), '{');
    for (unsigned i = 0; i < metrics_series_count(); i++) {
        struct str label;

        if (metrics_series_label(i, &label) == kind) {
            json_open(json, label, '{');
            put_series(json, i);
            json_close(json, '}');
        }
    }
    json_close(json, '}');
}

/* ---- groups ---- */

/* The series of a peer, which may not have been asked yet. */
static bool find_peer(struct str group, struct str peer, unsigned *series)
{
    for (*series = 0; *series < metrics_series_count(); (*series)++) {
        struct str text;

        if (metrics_series_label(*series, &text) == SERIES_PEER &&
            str_equal(str_cut(&text, '\0'), group) && str_equal(text, peer)) {
            return true;
        }
    }
    return false;
}

static struct str metrics_status_state_of(const struct peer *peer)
{
    const struct upstream_server *server = peer->server;

    if (peer_is_down(peer)) {
        return STR("down");
    }
    if (atomic_load(&peer->cell->is_unhealthy) != 0) {
        return STR("unhealthy");
    }
    if (server->is_draining) {
        return STR("draining");
    }
    return server->max_fails != 0 && atomic_load(&peer->cell->fails) >= server->max_fails
               ? STR("unavail")
               : STR("up");
}

static void put_times(struct json *json, const struct peer *peer, bool is_stream)
{
    static const struct {
        const char *http, *stream; /* names; NULL: not of this one */
        enum peer_time time;
    } times[] = {{NULL, "connect_time", PEER_TIME_CONNECT},
                 {"header_time", "first_byte_time", PEER_TIME_FIRST_BYTE},
                 {"response_time", "response_time", PEER_TIME_LAST_BYTE}};

    for (unsigned i = 0; i < sizeof(times) / sizeof(*times); i++) {
        const char *name = is_stream ? times[i].stream : times[i].http;

        if (name != NULL) {
            json_put_number(json, name, atomic_load(&peer->cell->times_us[times[i].time]) / 1000);
        }
    }
}

static void put_peer(struct json *json, const struct shown_peer *shown, bool is_stream)
{
    const struct peer *peer = shown->peer;
    unsigned series;

    json_open(json, STR_NONE, '{');
    json_put_number(json, "id", shown->id);
    json_put_string(json, "server", peer->name);
    json_put_string(json, "name", peer->server->written);
    json_put_flag(json, "backup", peer->server->is_backup);
    json_put_number(json, "weight", peer->weight);
    json_put_string(json, "state", metrics_status_state_of(peer));
    json_put_number(json, "active", peer_active(peer->cell));
    if (peer->server->max_conns != 0) {
        json_put_number(json, "max_conns", peer->server->max_conns);
    }
    if (!is_stream && find_peer(shown->group, peer->name, &series)) {
        put_series(json, series);
    } else if (!is_stream) {
        json_put_number(json, "requests", 0);
    }
    json_put_number(json, "fails", atomic_load(&peer->cell->fails));
    put_times(json, peer, is_stream);
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
            put_peer(json, shown, subsystem == &upstream_stream);
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

static void put_counter(struct json *json, const char *name, uint64_t responses)
{
    json_open(json, str_of(name), '{');
    json_put_number(json, "responses", responses);
    json_close(json, '}');
}

static void put_cache(const struct cache *cache, void *arg)
{
    struct json *json = arg;
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    json_open(json, cache->name, '{');
    json_put_number(json, "size", stats.bytes);
    if (stats.max_size > 0) {
        json_put_number(json, "max_size", (uint64_t) stats.max_size);
    }
    json_put_flag(json, "cold", stats.is_cold);
    put_counter(json, "hit", stats.hits);
    put_counter(json, "stale", stats.stale);
    put_counter(json, "updating", stats.updating);
    put_counter(json, "revalidated", stats.revalidated);
    put_counter(json, "miss", stats.misses);
    put_counter(json, "expired", stats.expired);
    put_counter(json, "bypass", stats.bypassed);
    json_close(json, '}');
}

static void put_slab(struct json *json, const struct zone *zone)
{
    struct slab_stats stats;

    slab_stats_of(zone->slab, &stats);
    json_open(json, zone->name, '{');
    json_open(json, STR("pages"), '{');
    json_put_number(json, "used", stats.pages - stats.free_pages);
    json_put_number(json, "free", stats.free_pages);
    json_close(json, '}');
    json_open(json, STR("slots"), '{');
    for (unsigned i = 0; i < SLAB_CLASSES; i++) {
        const struct slab_class *class = &stats.classes[i];
        char size[24];

        json_open(json, str_from(size, format_uint(size, class->size)), '{');
        json_put_number(json, "used", class->used);
        json_put_number(json, "free", class->total - class->used);
        json_put_number(json, "reqs", class->requests);
        json_put_number(json, "fails", class->failed);
        json_close(json, '}');
    }
    json_close(json, '}');
    json_close(json, '}');
}

static void write_zones(struct json *json)
{
    json_open(json, STR("slabs"), '{');
    for (const struct zone *zone = generation_now->zones; zone != NULL; zone = zone->next) {
        if (zone->slab != NULL) {
            put_slab(json, zone);
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
    json_put_number(json, "accepted", sum.accepted);
    json_put_number(json, "dropped", sum.accepted > sum.handled ? sum.accepted - sum.handled : 0);
    json_put_number(json, "active", sum.active > sum.waiting ? sum.active - sum.waiting : 0);
    json_put_number(json, "idle", sum.waiting);
    json_close(json, '}');
    json_open(json, STR("ssl"), '{');
    json_put_number(json, "handshakes", sum.tls_handshakes);
    json_put_number(json, "handshakes_failed", sum.tls_failures);
    json_put_number(json, "session_reuses", sum.tls_resumed);
    json_close(json, '}');
    json_open(json, STR("requests"), '{');
    json_put_number(json, "total", sum.requests);
    json_put_number(json, "current", sum.reading + sum.writing);
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
