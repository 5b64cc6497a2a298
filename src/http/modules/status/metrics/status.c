/* The numbers as one document of JSON, in the shape that nginx Plus' `status` has had: what monitors and pages read that know that. */
#include <unistd.h>

#include "config.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/shm.h"
#include "base/text.h"
#include "cache/cache.h"
#include "http/client/connection.h"
#include "http/modules/status/metrics/counters.h"
#include "http/modules/status/metrics/metrics.h"
#include "server/generation.h"
#include "upstream/peer.h"

#define SHAPE_VERSION 8 /* of the data, as `status` counted */

/* A document on its way. A comma stands before all members but the first of an object. */
struct json {
    struct buf *out;
    struct arena *arena;
    bool has_member; /* the object, or the list, that is open */
};

/* Bytes that are no UTF-8 are left out. */
static void put_text(struct json *json, struct str text)
{
    buf_append_char(json->out, '"');
    while (text.len != 0) {
        struct str rest = text;
        uint32_t point = utf8_next(&rest);
        struct str bytes = str_head(text, text.len - rest.len);

        text = rest;
        if (point != UINT32_MAX) {
            buf_append(json->out, escape_str(json->arena, bytes, ESCAPE_JSON));
        }
    }
    buf_append_char(json->out, '"');
}

/* What comes before a value: its name, where it has one. */
static void put_name(struct json *json, struct str name)
{
    if (json->has_member) {
        buf_append_char(json->out, ',');
    }
    json->has_member = true;
    if (name.len != 0) {
        put_text(json, name);
        buf_append_char(json->out, ':');
    }
}

static void put_number(struct json *json, const char *name, uint64_t number)
{
    put_name(json, str_of(name));
    buf_printf(json->out, "%llu", (unsigned long long) number);
}

static void put_string(struct json *json, const char *name, struct str text)
{
    put_name(json, str_of(name));
    put_text(json, text);
}

static void put_flag(struct json *json, const char *name, bool flag)
{
    put_name(json, str_of(name));
    buf_append(json->out, flag ? STR("true") : STR("false"));
}

static void open_with(struct json *json, struct str name, char bracket)
{
    put_name(json, name);
    buf_append_char(json->out, bracket);
    json->has_member = false;
}

static void close_with(struct json *json, char bracket)
{
    buf_append_char(json->out, bracket);
    json->has_member = true;
}

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
    open_with(json, STR("responses"), '{');
    for (unsigned class = 1; class < 6; class ++) {
        const char name[] = {(char) ('0' + class), 'x', 'x', 0};
        put_number(json, name, classes[class]);
    }
    put_number(json, "total", *total - classes[0]);
    close_with(json, '}');
}

static void put_series(struct json *json, unsigned series)
{
    struct metrics_cell sum;
    uint64_t total;

    metrics_sum(series, &sum);
    put_responses(json, &sum, &total);
    put_number(json, "requests", total);
    put_number(json, "received", sum.received);
    put_number(json, "sent", sum.sent);
}

static void write_series(struct json *json, const char *name, enum series_kind kind)
{
    open_with(json, str_of(name), '{');
    for (unsigned i = 0; i < metrics_series_count(); i++) {
        struct str label;

        if (metrics_series_label(i, &label) == kind) {
            open_with(json, label, '{');
            put_series(json, i);
            close_with(json, '}');
        }
    }
    close_with(json, '}');
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

static struct str state_of(const struct peer *peer)
{
    const struct upstream_server *server = peer->server;

    if (server->is_down) {
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

static void put_peer(struct json *json, const struct upstream_group *group, const struct peer *peer,
                     unsigned id)
{
    unsigned series;

    open_with(json, STR_NONE, '{');
    put_number(json, "id", id);
    put_string(json, "server", peer->name);
    put_string(json, "name", peer->server->written);
    put_flag(json, "backup", peer->server->is_backup);
    put_number(json, "weight", peer->weight);
    put_string(json, "state", state_of(peer));
    put_number(json, "active", peer_active(peer->cell));
    if (peer->server->max_conns != 0) {
        put_number(json, "max_conns", peer->server->max_conns);
    }
    if (find_peer(group->name, peer->name, &series)) {
        put_series(json, series);
    } else {
        put_number(json, "requests", 0);
    }
    put_number(json, "fails", atomic_load(&peer->cell->fails));
    put_number(json, "header_time",
               atomic_load(&peer->cell->times_us[PEER_TIME_FIRST_BYTE]) / 1000);
    put_number(json, "response_time",
               atomic_load(&peer->cell->times_us[PEER_TIME_LAST_BYTE]) / 1000);
    close_with(json, '}');
}

static void write_groups(struct json *json)
{
    const struct upstream_set *set = upstream_set_of(&generation_now->conf, &upstream_http);

    open_with(json, STR("upstreams"), '{');
    vec_each(struct upstream_group *, group, &set->groups) {
        const struct peer_list *list = (*group)->peers;

        open_with(json, (*group)->name, '{');
        open_with(json, STR("peers"), '[');
        for (unsigned i = 0; list != NULL && i < list->count; i++) {
            bool is_backup = i >= list->primary.count;
            put_peer(json, *group,
                     is_backup ? &list->backup.peers[i - list->primary.count]
                               : &list->primary.peers[i],
                     i);
        }
        close_with(json, ']');
        close_with(json, '}');
    }
    close_with(json, '}');
}

/* ---- the rest ---- */

static void put_counter(struct json *json, const char *name, uint64_t responses)
{
    open_with(json, str_of(name), '{');
    put_number(json, "responses", responses);
    close_with(json, '}');
}

static void put_cache(const struct cache *cache, void *arg)
{
    struct json *json = arg;
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    open_with(json, cache->name, '{');
    put_number(json, "size", stats.bytes);
    if (stats.max_size > 0) {
        put_number(json, "max_size", (uint64_t) stats.max_size);
    }
    put_flag(json, "cold", stats.is_cold);
    put_counter(json, "hit", stats.hits);
    put_counter(json, "stale", stats.stale);
    put_counter(json, "updating", stats.updating);
    put_counter(json, "revalidated", stats.revalidated);
    put_counter(json, "miss", stats.misses);
    put_counter(json, "expired", stats.expired);
    put_counter(json, "bypass", stats.bypassed);
    close_with(json, '}');
}

static void put_slab(struct json *json, const struct zone *zone)
{
    struct slab_stats stats;

    slab_stats_of(zone->slab, &stats);
    open_with(json, zone->name, '{');
    open_with(json, STR("pages"), '{');
    put_number(json, "used", stats.pages - stats.free_pages);
    put_number(json, "free", stats.free_pages);
    close_with(json, '}');
    open_with(json, STR("slots"), '{');
    for (unsigned i = 0; i < SLAB_CLASSES; i++) {
        const struct slab_class *class = &stats.classes[i];
        char size[24];

        open_with(json, str_from(size, format_uint(size, class->size)), '{');
        put_number(json, "used", class->used);
        put_number(json, "free", class->total - class->used);
        put_number(json, "reqs", class->requests);
        put_number(json, "fails", class->failed);
        close_with(json, '}');
    }
    close_with(json, '}');
    close_with(json, '}');
}

static void write_zones(struct json *json)
{
    open_with(json, STR("slabs"), '{');
    for (const struct zone *zone = generation_now->zones; zone != NULL; zone = zone->next) {
        if (zone->slab != NULL) {
            put_slab(json, zone);
        }
    }
    close_with(json, '}');
}

static void write_service(struct json *json, struct request *request)
{
    char address[ADDR_TEXT_MAX];

    put_number(json, "version", SHAPE_VERSION);
    put_string(json, "nginx_version", STR(NGINX_COMPAT_VERSION));
    put_string(json, "portunus_version", STR(PORTUNUS_VERSION));
    put_string(json, "address",
               (struct str){address, addr_format(connection_local(request->http), false, address)});
    put_number(json, "generation", generation_now->number);
    put_number(json, "timestamp", (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds);
    put_number(json, "pid", (uint64_t) getpid());
    put_number(json, "ppid", (uint64_t) getppid());
}

static void write_connections(struct json *json)
{
    struct slot_counters sum;

    counters_sum(&sum);
    open_with(json, STR("connections"), '{');
    put_number(json, "accepted", sum.accepted);
    put_number(json, "dropped", sum.accepted > sum.handled ? sum.accepted - sum.handled : 0);
    put_number(json, "active", sum.active > sum.waiting ? sum.active - sum.waiting : 0);
    put_number(json, "idle", sum.waiting);
    close_with(json, '}');
    open_with(json, STR("ssl"), '{');
    put_number(json, "handshakes", sum.tls_handshakes);
    put_number(json, "handshakes_failed", sum.tls_failures);
    put_number(json, "session_reuses", sum.tls_resumed);
    close_with(json, '}');
    open_with(json, STR("requests"), '{');
    put_number(json, "total", sum.requests);
    put_number(json, "current", sum.reading + sum.writing);
    close_with(json, '}');
}

void metrics_write_status(struct buf *out, struct request *request)
{
    struct json json = {.out = out, .arena = &request->arena};

    open_with(&json, STR_NONE, '{');
    write_service(&json, request);
    write_connections(&json);
    write_zones(&json);
    write_series(&json, "server_zones", SERIES_SERVER);
    write_series(&json, "location_zones", SERIES_ZONE);
    write_groups(&json);
    open_with(&json, STR("caches"), '{');
    cache_each(generation_now, put_cache, &json);
    close_with(&json, '}');
    close_with(&json, '}');
}
