/* Figures as members of JSON, with the names of nginx Plus. */
#include "shared/metrics/json.h"

#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/shm.h"
#include "cache/cache.h"
#include "server/generation.h"
#include "shared/metrics/peers.h"
#include "upstream/health.h"
#include "upstream/peer.h"

void json_put_time(struct json *json, const char *name, uint64_t ms)
{
    time_t seconds = (time_t) (ms / 1000);
    struct tm tm;
    char text[48];

    gmtime_r(&seconds, &tm);
    int length = snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03uZ",
                          tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min,
                          tm.tm_sec, (unsigned) (ms % 1000));
    json_put_string(json, name, (struct str){text, (size_t) length});
}

/* Converts a monotonic time to milliseconds since the epoch. */
static uint64_t wall_ms(uint64_t monotonic_ms)
{
    uint64_t now = (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;

    return now - (clock_now.now_ms - monotonic_ms);
}

/* ---- requests and sessions ---- */

/* Did the requests get no response at all? */
static bool is_discarded(unsigned code)
{
    return code == 444 || code == 499 || code == 0;
}

static void put_codes(struct json *json, const struct metrics_cell *cell)
{
    json_open(json, STR("codes"), '{');
    for (unsigned i = 0; i < METRICS_CODES; i++) {
        char code[8];

        if (cell->codes[i] != 0 && !is_discarded(metrics_codes[i])) {
            snprintf(code, sizeof(code), "%u", metrics_codes[i]);
            json_put_number(json, code, cell->codes[i]);
        }
    }
    json_close(json, '}');
}

/* Writes statuses by class; stream has only these classes. */
static void put_classes(struct json *json, const struct metrics_cell *cell, bool is_stream,
                        uint64_t *discarded)
{
    uint64_t classes[6] = {0}, ended = 0;

    for (unsigned i = 0; i < METRICS_CODES; i++) {
        unsigned class = metrics_codes[i] / 100;

        classes[class > 5 || is_discarded(metrics_codes[i]) ? 0 : class] += cell->codes[i];
        ended += cell->codes[i];
    }
    *discarded = classes[0];
    json_open(json, is_stream ? STR("sessions") : STR("responses"), '{');
    for (unsigned class = 1; class < 6; class ++) {
        const char name[] = {(char) ('0' + class), 'x', 'x', 0};

        if (!is_stream || (class != 1 && class != 3)) {
            json_put_number(json, name, classes[class]);
        }
    }
    if (!is_stream) {
        put_codes(json, cell);
    }
    json_put_number(json, "total", ended - *discarded);
    json_close(json, '}');
}

void json_put_series(struct json *json, enum series_kind kind, unsigned series, bool has_progress)
{
    struct metrics_cell sum = {0};
    uint64_t discarded = 0;
    bool is_stream = kind == SERIES_STREAM_SERVER || kind == SERIES_STREAM_PEER;
    bool is_peer = kind == SERIES_PEER || kind == SERIES_STREAM_PEER;

    if (series != SERIES_NONE) {
        metrics_since(series, &sum);
    }
    if (has_progress) {
        json_put_number(json, "processing", sum.began > sum.ended ? sum.began - sum.ended : 0);
    }
    if (!is_stream || !is_peer) {
        put_classes(json, &sum, is_stream, &discarded);
    }
    json_put_number(json, is_stream ? "connections" : "requests", sum.all);
    if (!is_peer) {
        json_put_number(json, "discarded", discarded);
    }
    json_put_number(json, "received", sum.received);
    json_put_number(json, "sent", sum.sent);
}

/* ---- peers ---- */

static struct str state_of(const struct upstream_group *group, const struct peer *peer)
{
    const struct upstream_server *server = peer->server;
    const struct peer_cell *cell = peer->cell;

    if (peer_is_down(peer)) {
        return STR("down");
    }
    if (atomic_load(&cell->is_unhealthy) != 0) {
        for (unsigned i = 0; i < PEER_CHECKS_MAX && group->health != NULL; i++) {
            if (atomic_load(&cell->checks[i].rise) != 0 ||
                atomic_load(&cell->checks[i].fall) != 0) {
                return STR("unhealthy");
            }
        }
        return STR("checking");
    }
    if (server->is_draining) {
        return STR("draining");
    }
    return server->max_fails != 0 && atomic_load(&cell->fails) >= server->max_fails ? STR("unavail")
                                                                                    : STR("up");
}

static void put_times(struct json *json, const struct peer *peer, bool is_stream)
{
    static const struct {
        const char *http, *stream; /* names; NULL: not for this protocol */
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

static void put_checks(struct json *json, const struct upstream_group *group,
                       const struct peer_cell *cell)
{
    uint64_t probes = 0, failures = 0, turns = 0;

    for (unsigned i = 0; i < PEER_CHECKS_MAX; i++) {
        probes += atomic_load(&cell->checks[i].probes);
        failures += atomic_load(&cell->checks[i].failures);
        turns += atomic_load(&cell->checks[i].turns);
    }
    json_open(json, STR("health_checks"), '{');
    json_put_number(json, "checks", probes);
    json_put_number(json, "fails", failures);
    json_put_number(json, "unhealthy", turns);
    if (group->health != NULL && probes != 0) {
        json_put_flag(json, "last_passed", atomic_load(&cell->checks[0].fall) == 0);
    }
    json_close(json, '}');
}

/* Writes the figures of its address; all are 0 before the first attempt. */
static void put_peer_series(struct json *json, const struct upstream_group *group,
                            const struct peer *peer, bool is_stream)
{
    char text[SERIES_LABEL];
    enum series_kind kind = is_stream ? SERIES_STREAM_PEER : SERIES_PEER;

    json_put_series(json, kind,
                    metrics_find(kind,
                                 metrics_peer_label(text, upstream_shown_name(group), peer->name)),
                    false);
}

void json_put_peer(struct json *json, const struct upstream_group *group, const struct peer *peer)
{
    const struct peer_cell *cell = peer->cell;
    const struct upstream_server *server = peer->server;
    bool is_stream = group->set->subsystem == &upstream_stream;
    uint64_t since = atomic_load(&cell->down_since_ms);
    uint64_t selected = peer_selected_ms(cell);

    json_put_string(json, "server", peer->name);
    if (server->service.len != 0) {
        json_put_string(json, "service", server->service);
    }
    json_put_string(json, "name", server->written);
    json_put_flag(json, "backup", server->is_backup);
    json_put_number(json, "weight", peer->weight);
    json_put_string(json, "state", state_of(group, peer));
    json_put_number(json, "active", peer_active(cell));
    if (server->max_conns != 0) {
        json_put_number(json, "max_conns", server->max_conns);
    }
    put_peer_series(json, group, peer, is_stream);
    json_put_number(json, "fails", atomic_load(&cell->failures));
    json_put_number(json, "unavail", atomic_load(&cell->unavailable));
    put_checks(json, group, cell);
    json_put_number(json, "downtime",
                    atomic_load(&cell->downtime_ms) + (since == 0 ? 0 : clock_now.now_ms - since));
    if (since != 0) {
        json_put_time(json, "downstart", wall_ms(since));
    }
    if (selected != 0) {
        json_put_time(json, "selected", wall_ms(selected));
    }
    put_times(json, peer, is_stream);
}

/* ---- caches, zones, connections ---- */

static void put_counter(struct json *json, const char *name, struct cache_figures figures,
                        bool is_fetched)
{
    json_open(json, str_of(name), '{');
    json_put_number(json, "responses", figures.requests);
    json_put_number(json, "bytes", figures.bytes);
    if (is_fetched) {
        json_put_number(json, "responses_written", figures.written);
        json_put_number(json, "bytes_written", figures.written_bytes);
    }
    json_close(json, '}');
}

void json_put_cache(struct json *json, const struct cache *cache)
{
    struct cache_figures misses = cache_figures_of(cache, CACHE_COUNT_MISS);
    struct cache_figures scarce = cache_figures_of(cache, CACHE_COUNT_SCARCE);
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    misses.requests += scarce.requests; /* of keys with fewer requests than *_cache_min_uses */
    misses.bytes += scarce.bytes;
    json_put_number(json, "size", stats.bytes);
    if (stats.max_size > 0 && stats.max_size != INT64_MAX) {
        json_put_number(json, "max_size", (uint64_t) stats.max_size);
    }
    json_put_flag(json, "cold", stats.is_cold);
    put_counter(json, "hit", cache_figures_of(cache, CACHE_COUNT_HIT), false);
    put_counter(json, "stale", cache_figures_of(cache, CACHE_COUNT_STALE), false);
    put_counter(json, "updating", cache_figures_of(cache, CACHE_COUNT_UPDATING), false);
    put_counter(json, "revalidated", cache_figures_of(cache, CACHE_COUNT_REVALIDATED), false);
    put_counter(json, "miss", misses, true);
    put_counter(json, "expired", cache_figures_of(cache, CACHE_COUNT_EXPIRED), true);
    put_counter(json, "bypass", cache_figures_of(cache, CACHE_COUNT_BYPASS), true);
}

void json_put_slab(struct json *json, const struct zone *zone)
{
    struct slab_stats stats;

    slab_stats_of(zone->slab, &stats);
    size_t others = (shown_servers_size(zone) + stats.page_size - 1) / stats.page_size;
    size_t left = stats.free_pages > others ? stats.free_pages - others : 0;
    json_open(json, STR("pages"), '{');
    json_put_number(json, "used", stats.pages - left);
    json_put_number(json, "free", left);
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
}

void json_put_connections(struct json *json, const struct slot_counters *sum)
{
    json_put_number(json, "accepted", sum->accepted);
    json_put_number(json, "dropped",
                    sum->accepted > sum->handled ? sum->accepted - sum->handled : 0);
    json_put_number(json, "active", sum->active > sum->waiting ? sum->active - sum->waiting : 0);
    json_put_number(json, "idle", sum->waiting);
}

void json_put_tls(struct json *json, const struct slot_counters *sum)
{
    json_put_number(json, "handshakes", sum->tls_handshakes);
    json_put_number(json, "handshakes_failed", sum->tls_failures);
    json_put_number(json, "session_reuses", sum->tls_resumed);
    json_put_number(json, "no_common_protocol", sum->tls_no_protocol);
    json_put_number(json, "no_common_cipher", sum->tls_no_cipher);
    json_put_number(json, "handshake_timeout", sum->tls_timeouts);
    json_put_number(json, "peer_rejected_cert", sum->tls_rejected);
    json_open(json, STR("verify_failures"), '{');
    json_put_number(json, "no_cert", sum->tls_no_certificate);
    json_put_number(json, "expired_cert", sum->tls_expired);
    json_put_number(json, "revoked_cert", sum->tls_revoked);
    json_put_number(json, "other", sum->tls_unverified);
    json_close(json, '}');
}

void json_put_requests(struct json *json, const struct slot_counters *sum)
{
    json_put_number(json, "total", sum->requests);
    json_put_number(json, "current", sum->reading + sum->writing);
}
