/* The numbers as text, for those who scrape: OpenMetrics, or Prometheus' form 0.0.4. */
#include <stdio.h>
#include <unistd.h>

#include "config.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/shm.h"
#include "base/text.h"
#include "cache/cache.h"
#include "http/client/protocol.h"
#include "http/modules/status/metrics/counters.h"
#include "http/modules/status/metrics/metrics.h"
#include "http/modules/status/metrics/peers.h"
#include "net/shards/listener.h"
#include "server/generation.h"
#include "shared/keyval/keyval.h"
#include "shared/limit/zone.h"
#include "upstream/peer.h"

/* What is written, and how. */
struct text {
    struct buf *out;
    struct request *request; /* that asks */
    bool is_openmetrics;
    const char *name; /* of the family that is being written */
    const char *tail; /* behind the name in samples: "_total" of counters */
};

enum family_type { FAMILY_COUNTER, FAMILY_GAUGE, FAMILY_HISTOGRAM, FAMILY_INFO };

/* The head of a family; its samples follow. */
static void begin(struct text *text, enum family_type type, const char *name, const char *help)
{
    static const char *const words[] = {"counter", "gauge", "histogram", "info"};
    bool is_counter = type == FAMILY_COUNTER;
    const char *word = type == FAMILY_INFO && !text->is_openmetrics ? "gauge" : words[type];
    const char *tail = is_counter ? "_total" : type == FAMILY_INFO ? "_info" : "";

    text->name = name;
    text->tail = tail;
    if (text->is_openmetrics) {
        tail = "";
    }
    buf_printf(text->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, tail, help, name, tail, word);
}

/* A label's value: of ours, or of the configuration. Bytes that are no UTF-8 are left out. */
static void put_value(struct buf *out, struct str value)
{
    while (value.len != 0) {
        struct str rest = value;
        uint32_t point = utf8_next(&rest);
        struct str bytes = str_head(value, value.len - rest.len);

        value = rest;
        if (point == '\n') {
            buf_append(out, STR("\\n"));
        } else if (point == '"' || point == '\\') {
            buf_append_char(out, '\\');
            buf_append(out, bytes);
        } else if (point != UINT32_MAX && point >= ' ') {
            buf_append(out, bytes);
        }
    }
}

struct label {
    const char *name; /* NULL ends a list */
    struct str value;
};

#define LABELS(...) ((const struct label[]){__VA_ARGS__, {NULL, STR_NONE}})

/* `name_tail{labels,more} `, to which a value is added. */
static void put_sample(struct text *text, const char *tail, const struct label *labels,
                       const char *more)
{
    char before = '{';

    buf_printf(text->out, "%s%s", text->name, tail);
    for (; labels != NULL && labels->name != NULL; labels++) {
        buf_printf(text->out, "%c%s=\"", before, labels->name);
        put_value(text->out, labels->value);
        buf_append_char(text->out, '"');
        before = ',';
    }
    if (more != NULL) {
        buf_printf(text->out, "%c%s", before, more);
        before = ',';
    }
    buf_append(text->out, before == '{' ? STR(" ") : STR("} "));
}

static void put(struct text *text, const struct label *labels, uint64_t value)
{
    put_sample(text, text->tail, labels, NULL);
    buf_printf(text->out, "%llu\n", (unsigned long long) value);
}

static void put_seconds(struct text *text, const char *tail, const struct label *labels,
                        uint64_t us)
{
    put_sample(text, tail, labels, NULL);
    buf_printf(text->out, "%llu.%06u\n", (unsigned long long) (us / 1000000),
               (unsigned) (us % 1000000));
}

static void put_one(struct text *text, enum family_type type, const char *name, const char *help,
                    uint64_t value)
{
    begin(text, type, name, help);
    put(text, NULL, value);
}

/* ---- requests, by series ---- */

/* The labels of a series; room for four. */
static void labels_of(unsigned series, struct label out[4])
{
    struct str text;
    struct str rest;

    memset(out, 0, 4 * sizeof(*out));
    switch (metrics_series_label(series, &text)) {
    case SERIES_SERVER:
        out[0] = (struct label){"server", text};
        return;
    case SERIES_ZONE:
        out[0] = (struct label){"zone", text};
        return;
    case SERIES_PEER:
        rest = text;
        out[0] = (struct label){"upstream", str_cut(&rest, '\0')};
        out[1] = (struct label){"peer", rest};
        return;
    case SERIES_KINDS:
        return;
    }
}

static void put_codes(struct text *text, const struct metrics_cell *cell,
                      const struct label *labels)
{
    for (unsigned i = 0; i < METRICS_CODES; i++) {
        char code[16];

        if (cell->codes[i] != 0) {
            snprintf(code, sizeof(code), "code=\"%03u\"", (unsigned) metrics_codes[i]);
            put_sample(text, text->tail, labels, code);
            buf_printf(text->out, "%llu\n", (unsigned long long) cell->codes[i]);
        }
    }
}

static void put_histogram(struct text *text, const struct metrics_cell *cell,
                          const struct label *labels)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < METRICS_BUCKETS; i++) {
        char end[24] = "le=\"+Inf\"";

        count += cell->buckets[i];
        if (i < METRICS_BUCKETS - 1) {
            snprintf(end, sizeof(end), "le=\"%g%s\"", metrics_bucket_ms[i] / 1000.0,
                     metrics_bucket_ms[i] % 1000 == 0 ? ".0" : "");
        }
        put_sample(text, "_bucket", labels, end);
        buf_printf(text->out, "%llu\n", (unsigned long long) count);
    }
    put_seconds(text, "_sum", labels, cell->time_ms * 1000);
    put_sample(text, "_count", labels, NULL);
    buf_printf(text->out, "%llu\n", (unsigned long long) count);
}

/* A family about requests, for each kind of series. */
struct request_family {
    const char *names[SERIES_KINDS];
    const char *help;
    enum family_type type;
    void (*write)(struct text *text, const struct metrics_cell *cell, const struct label *labels);
};

static void put_received(struct text *text, const struct metrics_cell *cell,
                         const struct label *labels)
{
    put(text, labels, cell->received);
}

static void put_sent(struct text *text, const struct metrics_cell *cell, const struct label *labels)
{
    put(text, labels, cell->sent);
}

static const struct request_family request_families[] = {
    {{"portunus_server_requests", "portunus_zone_requests", "portunus_upstream_requests"},
     "Requests by status; of peers each try, 000 without an answer.",
     FAMILY_COUNTER,
     put_codes},
    {{"portunus_server_received_bytes", "portunus_zone_received_bytes",
      "portunus_upstream_received_bytes"},
     "Bytes received.",
     FAMILY_COUNTER,
     put_received},
    {{"portunus_server_sent_bytes", "portunus_zone_sent_bytes", "portunus_upstream_sent_bytes"},
     "Bytes sent.",
     FAMILY_COUNTER,
     put_sent},
    {{"portunus_server_request_duration_seconds", "portunus_zone_request_duration_seconds",
      "portunus_upstream_response_duration_seconds"},
     "How long requests took, or the answers of peers.",
     FAMILY_HISTOGRAM,
     put_histogram},
};

static void write_requests(struct text *text)
{
    unsigned count = metrics_series_count();
    struct metrics_cell *sums = arena_array(&text->request->arena, count + 1, sizeof(*sums));
    struct str ignored;

    for (unsigned i = 0; i < count; i++) {
        metrics_sum(i, &sums[i]);
    }
    for (unsigned f = 0; f < sizeof(request_families) / sizeof(*request_families); f++) {
        const struct request_family *family = &request_families[f];

        for (unsigned kind = 0; kind < SERIES_KINDS; kind++) {
            begin(text, family->type, family->names[kind], family->help);
            for (unsigned i = 0; i < count; i++) {
                struct label labels[4];

                if (metrics_series_label(i, &ignored) == kind) {
                    labels_of(i, labels);
                    family->write(text, &sums[i], labels);
                }
            }
        }
    }
    put_one(text, FAMILY_COUNTER, "portunus_metrics_lost",
            "Series and requests that are not counted, for want of room.", metrics_lost());
}

/* ---- connections and TLS ---- */

static void write_connections(struct text *text)
{
    struct slot_counters sum;

    counters_sum(&sum);
    put_one(text, FAMILY_COUNTER, "portunus_connections_accepted", "Connections accepted.",
            sum.accepted);
    put_one(text, FAMILY_COUNTER, "portunus_connections_handled", "Connections served.",
            sum.handled);
    begin(text, FAMILY_GAUGE, "portunus_connections", "Connections that are open, by state.");
    put(text, LABELS({"state", STR("active")}), sum.active);
    put(text, LABELS({"state", STR("reading")}), sum.reading);
    put(text, LABELS({"state", STR("writing")}), sum.writing);
    put(text, LABELS({"state", STR("waiting")}), sum.waiting);
    put_one(text, FAMILY_COUNTER, "portunus_requests", "Requests.", sum.requests);
    put_one(text, FAMILY_COUNTER, "portunus_limits_reached",
            "Requests and connections that a limit on what a peer may do has refused.",
            sum.limited);
    put_one(text, FAMILY_COUNTER, "portunus_http2_connections", "Connections of HTTP/2.",
            sum.h2_connections);
    begin(text, FAMILY_COUNTER, "portunus_tls_handshakes",
          "Handshakes with clients that came to their end, by version of TLS.");
    put(text, LABELS({"version", STR("1.3")}), sum.tls_version_1_3);
    put(text, LABELS({"version", STR("1.2")}), sum.tls_handshakes - sum.tls_version_1_3);
    put_one(text, FAMILY_COUNTER, "portunus_tls_resumed", "Handshakes that took up a session.",
            sum.tls_resumed);
    put_one(text, FAMILY_COUNTER, "portunus_tls_failures", "Handshakes that failed.",
            sum.tls_failures);
}

static void write_certificates(struct text *text)
{
    const struct http_main *main = text->request->server->main;

    begin(text, FAMILY_GAUGE, "portunus_certificate_expiry_timestamp_seconds",
          "When the first certificate of a server ends.");
    if (main->handshake == NULL) {
        return;
    }
    /* Servers of one name have one line: of the first that has a certificate. */
    struct map seen = {0};
    vec_each(struct http_server *, server, &main->servers) {
        struct str name = (*server)->name.len == 0 ? STR("_") : (*server)->name;
        int64_t end = main->handshake->expires(*server);

        if (end != 0 && map_get(&seen, name) == NULL) {
            map_put(&seen, &text->request->arena, name, *server);
            put(text, LABELS({"server", name}), (uint64_t) end);
        }
    }
}

static void write_shards(struct text *text)
{
    begin(text, FAMILY_COUNTER, "portunus_shard_connections",
          "Connections by slot, and by who accepted them: its own worker, a sibling as that was "
          "busy, a survivor after the slot had retired.");
    for (unsigned slot = 0; slot < generation_now->slots; slot++) {
        struct shard_counts counts;
        char number[16];

        snprintf(number, sizeof(number), "%u", slot);
        shard_counts(slot, &counts);
        put(text, LABELS({"slot", str_of(number)}, {"by", STR("own")}), counts.own);
        put(text, LABELS({"slot", str_of(number)}, {"by", STR("sibling")}), counts.taken);
        put(text, LABELS({"slot", str_of(number)}, {"by", STR("survivor")}), counts.adopted);
    }
    put_one(text, FAMILY_COUNTER, "portunus_shard_steerings",
            "Times that new connections were steered to other slots.", shard_steerings());
}

/* ---- groups ---- */

static void put_up(struct text *text, const struct label *labels, const struct peer *peer)
{
    put(text, labels, !peer->server->is_down && atomic_load(&peer->cell->is_unhealthy) == 0);
}

static void put_active(struct text *text, const struct label *labels, const struct peer *peer)
{
    put(text, labels, peer_active(peer->cell));
}

static void put_open(struct text *text, const struct label *labels, const struct peer *peer)
{
    put(text, labels, peer_open(peer->cell));
}

static void put_fails(struct text *text, const struct label *labels, const struct peer *peer)
{
    put(text, labels, atomic_load(&peer->cell->fails));
}

static void put_response_time(struct text *text, const struct label *labels,
                              const struct peer *peer)
{
    put_seconds(text, "", labels, atomic_load(&peer->cell->times_us[PEER_TIME_LAST_BYTE]));
}

/* A family about peers as they are now. */
struct peer_family {
    const char *name;
    const char *help;
    void (*write)(struct text *text, const struct label *labels, const struct peer *peer);
};

static const struct peer_family http_peer_families[] = {
    {"portunus_upstream_up", "1: no check says that the peer is unhealthy, and it is not set down.",
     put_up},
    {"portunus_upstream_active_requests", "Requests in progress at the peer.", put_active},
    {"portunus_upstream_open_connections", "Connections to the peer, idle ones too.", put_open},
    {"portunus_upstream_recent_failures", "Failures within fail_timeout.", put_fails},
    {"portunus_upstream_response_seconds", "Moving average of response times; 0: not known.",
     put_response_time},
    {NULL, NULL, NULL},
};

static const struct peer_family stream_peer_families[] = {
    {"portunus_stream_upstream_up",
     "1: no check says that the peer is unhealthy, and it is not set down.", put_up},
    {"portunus_stream_upstream_active_sessions", "Sessions in progress with the peer.", put_active},
    {"portunus_stream_upstream_recent_failures", "Failures within fail_timeout.", put_fails},
    {NULL, NULL, NULL},
};

static void write_peers(struct text *text, const struct upstream_subsystem *subsystem,
                        const struct peer_family *families)
{
    struct vec peers = shown_peers(subsystem, &text->request->arena);

    for (const struct peer_family *family = families; family->name != NULL; family++) {
        begin(text, FAMILY_GAUGE, family->name, family->help);
        vec_each(const struct shown_peer, shown, &peers) {
            if (shown->peer != NULL) {
                family->write(text, LABELS({"upstream", shown->group}, {"peer", shown->peer->name}),
                              shown->peer);
            }
        }
    }
}

/* ---- limits ---- */

static void write_limits(struct text *text)
{
    const struct limit_zone *zone = limit_zones_all(&generation_now->conf);

    begin(text, FAMILY_COUNTER, "portunus_limit_zone_decisions",
          "What zones of limits decided, of requests or sessions; each counts its own.");
    for (; zone != NULL; zone = zone->beside) {
        struct label labels[] = {
            {"limit", limit_kind_word(zone->kind)},
            {"protocol", str_of(zone->kind->protocol)},
            {"zone", zone->zone->name},
            {"decision", STR_NONE},
            {NULL, STR_NONE},
        };

        for (unsigned i = 0; i < LIMIT_OUTCOMES; i++) {
            if ((i == LIMIT_DELAYED || i == LIMIT_DELAYED_DRY_RUN) && !zone->kind->delays) {
                continue;
            }
            labels[3].value = limit_outcome_names[i];
            put(text, labels, atomic_load(&zone->counts->of[i]));
        }
    }
}

/* ---- caches, zones, the service ---- */

static void put_cache_bytes(const struct cache *cache, void *arg)
{
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    put(arg, LABELS({"cache", cache->name}), stats.bytes);
}

static void put_cache_entries(const struct cache *cache, void *arg)
{
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    put(arg, LABELS({"cache", cache->name}), stats.entries);
}

static void put_cache_requests(const struct cache *cache, void *arg)
{
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    put(arg, LABELS({"cache", cache->name}, {"status", STR("hit")}), stats.hits);
    put(arg, LABELS({"cache", cache->name}, {"status", STR("miss")}), stats.misses);
    put(arg, LABELS({"cache", cache->name}, {"status", STR("expired")}), stats.expired);
    put(arg, LABELS({"cache", cache->name}, {"status", STR("stale")}), stats.stale);
    put(arg, LABELS({"cache", cache->name}, {"status", STR("updating")}), stats.updating);
    put(arg, LABELS({"cache", cache->name}, {"status", STR("revalidated")}), stats.revalidated);
    put(arg, LABELS({"cache", cache->name}, {"status", STR("bypass")}), stats.bypassed);
    put(arg, LABELS({"cache", cache->name}, {"status", STR("scarce")}), stats.scarce);
}

static void write_caches(struct text *text)
{
    begin(text, FAMILY_GAUGE, "portunus_cache_bytes", "Bytes on disk.");
    cache_each(generation_now, put_cache_bytes, text);
    begin(text, FAMILY_GAUGE, "portunus_cache_entries", "Responses that are stored.");
    cache_each(generation_now, put_cache_entries, text);
    begin(text, FAMILY_COUNTER, "portunus_cache_requests",
          "Requests by how the cache served them.");
    cache_each(generation_now, put_cache_requests, text);
}

static void write_zones(struct text *text)
{
    begin(text, FAMILY_GAUGE, "portunus_shared_memory_bytes", "Zones of shared memory.");
    for (const struct zone *zone = generation_now->zones; zone != NULL; zone = zone->next) {
        if (zone->slab == NULL) {
            continue;
        }
        size_t room = slab_available(zone->slab);
        put(text, LABELS({"zone", zone->name}, {"state", STR("free")}), room);
        put(text, LABELS({"zone", zone->name}, {"state", STR("used")}),
            zone->size > room ? zone->size - room : 0);
    }
}

static void write_keyvals(struct text *text)
{
    const struct keyval_kind *const kinds[] = {&keyval_http, &keyval_stream};

    begin(text, FAMILY_GAUGE, "portunus_keyval_pairs",
          "Keys and values in zones, of which some may have expired.");
    for (unsigned i = 0; i < 2; i++) {
        const struct keyval_zone *zone = keyval_zones_of(&generation_now->conf, kinds[i]);

        for (; zone != NULL; zone = zone->next) {
            put(text, LABELS({"zone", zone->zone->name}), keyval_count(zone->store));
        }
    }
}

/* Resident memory of the worker that answers; 0: not known. */
static uint64_t resident_bytes(void)
{
    unsigned long long size = 0;
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%llu %llu", &size, &pages) != 2) {
        pages = 0;
    }
    fclose(file);
    return pages * (uint64_t) sysconf(_SC_PAGESIZE);
}

static void write_service(struct text *text)
{
    begin(text, FAMILY_INFO, "portunus_build", "Which program this is.");
    put(text, LABELS({"version", STR(PORTUNUS_VERSION)}), 1);
    put_one(text, FAMILY_GAUGE, "portunus_workers", "Workers of this configuration.",
            generation_now->slots);
    put_one(text, FAMILY_COUNTER, "portunus_reloads",
            "Configurations read since the start, without the first.", generation_now->number - 1);
    put_one(text, FAMILY_GAUGE, "portunus_worker_resident_memory_bytes",
            "Resident memory of the worker that has answered.", resident_bytes());
}

void metrics_write(struct buf *out, struct request *request, bool is_openmetrics)
{
    struct text text = {.out = out, .request = request, .is_openmetrics = is_openmetrics};

    write_service(&text);
    write_connections(&text);
    write_requests(&text);
    write_peers(&text, &upstream_http, http_peer_families);
    write_peers(&text, &upstream_stream, stream_peer_families);
    write_limits(&text);
    write_caches(&text);
    write_shards(&text);
    write_certificates(&text);
    write_zones(&text);
    write_keyvals(&text);
    if (is_openmetrics) {
        buf_append(out, STR("# EOF\n"));
    }
}
