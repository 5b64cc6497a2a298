/* The numbers that are shown to scrapers, family by family: those of the cells, and those that other packages keep. */
#include <stdio.h>
#include <unistd.h>

#include "config.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/shm.h"
#include "cache/cache.h"
#include "http/client/protocol.h"
#include "shared/metrics/counters.h"
#include "shared/metrics/orders.h"
#include "http/modules/status/metrics/metrics.h"
#include "shared/metrics/peers.h"
#include "shared/metrics/writer.h"
#include "net/shards/listener.h"
#include "server/generation.h"
#include "shared/keyval/keyval.h"
#include "shared/limit/zone.h"
#include "store/table.h"
#include "upstream/discovery/discovery.h"
#include "upstream/peer.h"

static void metrics_families_put(struct metrics_writer *writer, const struct label *labels,
                                 uint64_t value)
{
    family_put(writer, labels, value, UNIT_ONE);
}

static void put_one(struct metrics_writer *writer, enum family_type type, const char *name,
                    const char *help, uint64_t value)
{
    family_begin(writer, type, name, help);
    metrics_families_put(writer, NULL, value);
}

/* ---- requests, by series ---- */

/* The labels of a series: two at most, with room for another. */
static void labels_of(unsigned series, struct label out[4])
{
    struct str name;
    struct str rest;

    memset(out, 0, 4 * sizeof(*out));
    switch (metrics_series_label(series, &name)) {
    case SERIES_SERVER:
        out[0] = (struct label){"server", name};
        return;
    case SERIES_ZONE:
        out[0] = (struct label){"zone", name};
        return;
    case SERIES_STREAM_SERVER:
        out[0] = (struct label){"zone", name};
        return;
    case SERIES_PEER:
    case SERIES_STREAM_PEER:
        rest = name;
        out[0] = (struct label){"upstream", str_cut(&rest, '\0')};
        out[1] = (struct label){"peer", rest};
        return;
    case SERIES_KINDS:
        return;
    }
}

static void put_codes(struct metrics_writer *writer, struct label *labels,
                      const struct metrics_cell *cell)
{
    struct label *last = labels;
    char code[4];

    while (last->name != NULL) {
        last++;
    }
    for (unsigned i = 0; i < METRICS_CODES; i++) {
        if (cell->codes[i] != 0) {
            snprintf(code, sizeof(code), "%03u", metrics_codes[i] % 1000u);
            *last = (struct label){"code", {code, 3}};
            metrics_families_put(writer, labels, cell->codes[i]);
        }
    }
}

static void put_received(struct metrics_writer *writer, struct label *labels,
                         const struct metrics_cell *cell)
{
    metrics_families_put(writer, labels, cell->received);
}

static void put_sent(struct metrics_writer *writer, struct label *labels,
                     const struct metrics_cell *cell)
{
    metrics_families_put(writer, labels, cell->sent);
}

static void put_times(struct metrics_writer *writer, struct label *labels,
                      const struct metrics_cell *cell)
{
    family_put_histogram(writer, labels, cell);
}

/* A family about requests, for each kind of series. */
struct request_family {
    const char *names[SERIES_KINDS];
    const char *help;
    enum family_type type;
    /* A label may be added to the others. */
    void (*write)(struct metrics_writer *writer, struct label *labels,
                  const struct metrics_cell *cell);
};

static const struct request_family request_families[] = {
    {{"portunus_server_requests", "portunus_zone_requests", "portunus_upstream_requests",
      "portunus_stream_server_sessions", "portunus_stream_upstream_sessions"},
     "Requests or sessions by status; of peers each attempt, 000 without an answer.",
     FAMILY_COUNTER,
     put_codes},
    {{"portunus_server_received_bytes", "portunus_zone_received_bytes",
      "portunus_upstream_received_bytes", "portunus_stream_server_received_bytes",
      "portunus_stream_upstream_received_bytes"},
     "Bytes received.",
     FAMILY_COUNTER,
     put_received},
    {{"portunus_server_sent_bytes", "portunus_zone_sent_bytes", "portunus_upstream_sent_bytes",
      "portunus_stream_server_sent_bytes", "portunus_stream_upstream_sent_bytes"},
     "Bytes sent.",
     FAMILY_COUNTER,
     put_sent},
    {{"portunus_server_request_duration_seconds", "portunus_zone_request_duration_seconds",
      "portunus_upstream_response_duration_seconds",
      "portunus_stream_server_session_duration_seconds",
      "portunus_stream_upstream_session_duration_seconds"},
     "How long requests or sessions took, or the answers of peers.",
     FAMILY_HISTOGRAM,
     put_times},
};

static void write_requests(struct metrics_writer *writer, struct arena *arena)
{
    unsigned count = metrics_series_count();
    struct metrics_cell *sums = arena_array(arena, count + 1, sizeof(*sums));
    struct str ignored;

    for (unsigned i = 0; i < count; i++) {
        metrics_sum(i, &sums[i]);
    }
    for (unsigned f = 0; f < sizeof(request_families) / sizeof(*request_families); f++) {
        const struct request_family *family = &request_families[f];

        for (unsigned kind = 0; kind < SERIES_KINDS; kind++) {
            family_begin(writer, family->type, family->names[kind], family->help);
            for (unsigned i = 0; i < count; i++) {
                struct label labels[4];

                if (metrics_series_label(i, &ignored) == kind) {
                    labels_of(i, labels);
                    family->write(writer, labels, &sums[i]);
                }
            }
        }
    }
    put_one(writer, FAMILY_COUNTER, "portunus_metrics_lost",
            "Series and requests that are not counted, for want of room.", metrics_lost());
}

/* ---- connections and TLS ---- */

static void write_connections(struct metrics_writer *writer)
{
    struct slot_counters sum;

    counters_sum(&sum);
    put_one(writer, FAMILY_COUNTER, "portunus_connections_accepted", "Connections accepted.",
            sum.accepted);
    put_one(writer, FAMILY_COUNTER, "portunus_connections_handled", "Connections served.",
            sum.handled);
    family_begin(writer, FAMILY_GAUGE, "portunus_connections",
                 "Connections that are open, by state.");
    metrics_families_put(writer, LABELS({"state", STR("active")}), sum.active);
    metrics_families_put(writer, LABELS({"state", STR("reading")}), sum.reading);
    metrics_families_put(writer, LABELS({"state", STR("writing")}), sum.writing);
    metrics_families_put(writer, LABELS({"state", STR("waiting")}), sum.waiting);
    put_one(writer, FAMILY_COUNTER, "portunus_requests", "Requests.", sum.requests);
    put_one(writer, FAMILY_COUNTER, "portunus_limits_reached",
            "Requests and connections that a limit on what a peer may do has refused.",
            sum.limited);
    put_one(writer, FAMILY_COUNTER, "portunus_http2_connections", "Connections of HTTP/2.",
            sum.h2_connections);
    family_begin(writer, FAMILY_COUNTER, "portunus_tls_handshakes",
                 "Handshakes with clients that came to their end, by version of TLS.");
    metrics_families_put(writer, LABELS({"version", STR("1.3")}), sum.tls_version_1_3);
    metrics_families_put(writer, LABELS({"version", STR("1.2")}),
                         sum.tls_handshakes - sum.tls_version_1_3);
    put_one(writer, FAMILY_COUNTER, "portunus_tls_resumed", "Handshakes that took up a session.",
            sum.tls_resumed);
    put_one(writer, FAMILY_COUNTER, "portunus_tls_failures", "Handshakes that failed.",
            sum.tls_failures);
}

static void write_certificates(struct metrics_writer *writer, struct arena *arena,
                               const struct http_main *main)
{
    family_begin(writer, FAMILY_GAUGE, "portunus_certificate_expiry_timestamp_seconds",
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
            map_put(&seen, arena, name, *server);
            metrics_families_put(writer, LABELS({"server", name}), (uint64_t) end);
        }
    }
}

/* What acme_issuer has ordered. */
static void write_orders(struct metrics_writer *writer)
{
    static const char *const kinds[] =
        {[ORDERS_LIMITED] = "limited", [ORDERS_REFUSED] = "refused", [ORDERS_FAILED] = "other"};
    const struct vec *issuers = issuer_counts_of(&generation_now->conf);

    if (issuers->count == 0) {
        return;
    }
    family_begin(writer, FAMILY_COUNTER, "portunus_acme_orders", "Orders of certificates.");
    vec_each(const struct issuer_counts, one, issuers) {
        metrics_families_put(writer, LABELS({"issuer", one->name}),
                             atomic_load(&one->counts->of[ORDERS_STARTED]));
    }
    family_begin(writer, FAMILY_COUNTER, "portunus_acme_orders_issued",
                 "Orders that gave a certificate.");
    vec_each(const struct issuer_counts, one, issuers) {
        metrics_families_put(writer, LABELS({"issuer", one->name}),
                             atomic_load(&one->counts->of[ORDERS_ISSUED]));
    }
    family_begin(writer, FAMILY_COUNTER, "portunus_acme_orders_failed",
                 "Orders that failed, by kind.");
    vec_each(const struct issuer_counts, one, issuers) {
        for (unsigned kind = ORDERS_LIMITED; kind < ORDER_COUNTS; kind++) {
            metrics_families_put(writer,
                                 LABELS({"issuer", one->name}, {"kind", str_of(kinds[kind])}),
                                 atomic_load(&one->counts->of[kind]));
        }
    }
    family_begin(writer, FAMILY_GAUGE, "portunus_acme_next_order_timestamp_seconds",
                 "When the next order is due.");
    vec_each(const struct issuer_counts, one, issuers) {
        metrics_families_put(writer, LABELS({"issuer", one->name}),
                             atomic_load(&one->counts->next_s));
    }
}

static void put_slot(struct metrics_writer *writer, unsigned slot, uint64_t value)
{
    char number[16];

    snprintf(number, sizeof(number), "%u", slot);
    metrics_families_put(writer, LABELS({"slot", str_of(number)}), value);
}

/* A socket that all slots share is counted for the first of them. */
static uint64_t waiting_at(unsigned slot)
{
    uint64_t sum = 0;

    for (const struct listener *at = generation_now->listeners; at != NULL; at = at->next) {
        const struct shard_set *set = at->shards;

        if (set != NULL && !at->options.is_datagram && (set->is_sharded || slot == 0)) {
            sum += shard_backlog(shard_fd(set, slot));
        }
    }
    return sum;
}

static void write_shards(struct metrics_writer *writer)
{
    family_begin(
        writer, FAMILY_COUNTER, "portunus_shard_connections",
        "Connections by slot, and by who accepted them: its own worker, a sibling as that was "
        "busy, a survivor after the slot had retired.");
    for (unsigned slot = 0; slot < generation_now->slots; slot++) {
        struct shard_counts counts;
        char number[16];

        snprintf(number, sizeof(number), "%u", slot);
        shard_counts(slot, &counts);
        metrics_families_put(writer, LABELS({"slot", str_of(number)}, {"by", STR("own")}),
                             counts.own);
        metrics_families_put(writer, LABELS({"slot", str_of(number)}, {"by", STR("sibling")}),
                             counts.taken);
        metrics_families_put(writer, LABELS({"slot", str_of(number)}, {"by", STR("survivor")}),
                             counts.adopted);
    }
    family_begin(writer, FAMILY_COUNTER, "portunus_shard_connections_lent",
                 "Idle connections that the worker of a slot gave to others, as it was busier.");
    for (unsigned slot = 0; slot < generation_now->slots; slot++) {
        struct shard_counts counts;

        shard_counts(slot, &counts);
        put_slot(writer, slot, counts.gave);
    }
    family_begin(writer, FAMILY_GAUGE, "portunus_shard_queue",
                 "Connections that wait to be accepted at the sockets of a slot.");
    for (unsigned slot = 0; slot < generation_now->slots; slot++) {
        put_slot(writer, slot, waiting_at(slot));
    }
    put_one(writer, FAMILY_COUNTER, "portunus_shard_steerings",
            "Times that new connections were steered to other slots.", shard_steerings());
}

/* ---- groups ---- */

static void put_up(struct metrics_writer *writer, const struct label *labels,
                   const struct peer *peer)
{
    metrics_families_put(writer, labels,
                         !peer_is_down(peer) && atomic_load(&peer->cell->is_unhealthy) == 0);
}

static void put_active(struct metrics_writer *writer, const struct label *labels,
                       const struct peer *peer)
{
    metrics_families_put(writer, labels, peer_active(peer->cell));
}

static void put_open(struct metrics_writer *writer, const struct label *labels,
                     const struct peer *peer)
{
    metrics_families_put(writer, labels, peer_open(peer->cell));
}

static void put_fails(struct metrics_writer *writer, const struct label *labels,
                      const struct peer *peer)
{
    metrics_families_put(writer, labels, atomic_load(&peer->cell->fails));
}

static void put_response_time(struct metrics_writer *writer, const struct label *labels,
                              const struct peer *peer)
{
    family_put(writer, labels, atomic_load(&peer->cell->times_us[PEER_TIME_LAST_BYTE]),
               UNIT_MICROSECOND);
}

/* A family about peers as they are now. */
struct peer_family {
    const char *name;
    const char *help;
    void (*write)(struct metrics_writer *writer, const struct label *labels,
                  const struct peer *peer);
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

static void write_peers(struct metrics_writer *writer, struct arena *arena,
                        const struct upstream_subsystem *subsystem,
                        const struct peer_family *families)
{
    struct vec peers = shown_peers(subsystem, arena);

    for (const struct peer_family *family = families; family->name != NULL; family++) {
        family_begin(writer, FAMILY_GAUGE, family->name, family->help);
        vec_each(const struct shown_peer, shown, &peers) {
            if (shown->peer != NULL) {
                family->write(writer,
                              LABELS({"upstream", shown->group}, {"peer", shown->peer->name}),
                              shown->peer);
            }
        }
    }
}

/* ---- limits ---- */

static void write_limits(struct metrics_writer *writer)
{
    const struct limit_zone *zone = limit_zones_all(&generation_now->conf);

    family_begin(writer, FAMILY_COUNTER, "portunus_limit_zone_decisions",
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
            metrics_families_put(writer, labels, atomic_load(&zone->counts->of[i]));
        }
    }
}

/* ---- caches, zones, the service ---- */

static void put_cache_bytes(const struct cache *cache, void *arg)
{
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    metrics_families_put(arg, LABELS({"cache", cache->name}), stats.bytes);
}

static void put_cache_entries(const struct cache *cache, void *arg)
{
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    metrics_families_put(arg, LABELS({"cache", cache->name}), stats.entries);
}

static void put_cache_requests(const struct cache *cache, void *arg)
{
    struct cache_stats stats;

    cache_stats_of(cache, &stats);
    metrics_families_put(arg, LABELS({"cache", cache->name}, {"status", STR("hit")}), stats.hits);
    metrics_families_put(arg, LABELS({"cache", cache->name}, {"status", STR("miss")}),
                         stats.misses);
    metrics_families_put(arg, LABELS({"cache", cache->name}, {"status", STR("expired")}),
                         stats.expired);
    metrics_families_put(arg, LABELS({"cache", cache->name}, {"status", STR("stale")}),
                         stats.stale);
    metrics_families_put(arg, LABELS({"cache", cache->name}, {"status", STR("updating")}),
                         stats.updating);
    metrics_families_put(arg, LABELS({"cache", cache->name}, {"status", STR("revalidated")}),
                         stats.revalidated);
    metrics_families_put(arg, LABELS({"cache", cache->name}, {"status", STR("bypass")}),
                         stats.bypassed);
    metrics_families_put(arg, LABELS({"cache", cache->name}, {"status", STR("scarce")}),
                         stats.scarce);
}

static void write_caches(struct metrics_writer *writer)
{
    family_begin(writer, FAMILY_GAUGE, "portunus_cache_bytes", "Bytes on disk.");
    cache_each(generation_now, put_cache_bytes, writer);
    family_begin(writer, FAMILY_GAUGE, "portunus_cache_entries", "Responses that are stored.");
    cache_each(generation_now, put_cache_entries, writer);
    family_begin(writer, FAMILY_COUNTER, "portunus_cache_requests",
                 "Requests by how the cache served them.");
    cache_each(generation_now, put_cache_requests, writer);
}

static void write_zones(struct metrics_writer *writer)
{
    family_begin(writer, FAMILY_GAUGE, "portunus_shared_memory_bytes", "Zones of shared memory.");
    for (const struct zone *zone = generation_now->zones; zone != NULL; zone = zone->next) {
        if (zone->slab == NULL) {
            continue;
        }
        size_t room = slab_available(zone->slab);
        metrics_families_put(writer, LABELS({"zone", zone->name}, {"state", STR("free")}), room);
        metrics_families_put(writer, LABELS({"zone", zone->name}, {"state", STR("used")}),
                             zone->size > room ? zone->size - room : 0);
    }
}

static void write_keyvals(struct metrics_writer *writer)
{
    const struct keyval_kind *const kinds[] = {&keyval_http, &keyval_stream};

    family_begin(writer, FAMILY_GAUGE, "portunus_keyval_pairs",
                 "Keys and values in zones, of which some may have expired.");
    for (unsigned i = 0; i < 2; i++) {
        const struct keyval_zone *zone = keyval_zones_of(&generation_now->conf, kinds[i]);

        for (; zone != NULL; zone = zone->next) {
            metrics_families_put(writer, LABELS({"zone", zone->zone->name}),
                                 keyval_count(zone->store));
        }
    }
}

static void write_stores(struct metrics_writer *writer)
{
    static const struct {
        const char *name, *help;
    } families[STORE_COUNTERS] = {
        [STORE_REQUESTS] = {"portunus_store_requests", "Commands sent to stores."},
        [STORE_REPLIES] = {"portunus_store_replies", "Replies that came in time."},
        [STORE_ERRORS] = {"portunus_store_errors", "Replies that were errors."},
        [STORE_TIMEOUTS] = {"portunus_store_timeouts", "Commands without a reply in time."},
        [STORE_UNAVAILABLE] = {"portunus_store_unavailable",
                               "Commands that failed as the store was not connected."},
        [STORE_REDIRECTS] = {"portunus_store_redirects", "Commands sent to another server again."},
        [STORE_CONNECTS] = {"portunus_store_connections", "Connections made to stores."},
        [STORE_FAILURES] = {"portunus_store_connection_failures",
                            "Connections that failed or ended."},
        [STORE_BYTES_OUT] = {"portunus_store_sent_bytes", "Bytes of commands."},
        [STORE_BYTES_IN] = {"portunus_store_received_bytes", "Bytes of replies."},
    };
    const struct store *first = store_first(&generation_now->conf);

    for (unsigned i = 0; first != NULL && i < STORE_COUNTERS; i++) {
        family_begin(writer, FAMILY_COUNTER, families[i].name, families[i].help);
        for (const struct store *store = first; store != NULL; store = store_after(store)) {
            metrics_families_put(writer, LABELS({"store", store_name(store)}),
                                 atomic_load(&store_counts_of(store)->of[i]));
        }
    }
    if (first != NULL) {
        family_begin(writer, FAMILY_GAUGE, "portunus_store_gone",
                     "1: the store is not reached, and zones continue locally.");
    }
    for (const struct store *store = first; store != NULL; store = store_after(store)) {
        metrics_families_put(writer, LABELS({"store", store_name(store)}),
                             atomic_load(&store_counts_of(store)->is_gone));
    }
}

/* Zones that nodes have in common. */
static void write_tables(struct metrics_writer *writer)
{
    static const struct {
        const char *name, *help;
    } families[STORE_TABLE_COUNTERS] = {
        [STORE_TABLE_SENT] = {"portunus_sync_sent", "Changes that the store took."},
        [STORE_TABLE_RECEIVED] = {"portunus_sync_received", "Items read from the store."},
        [STORE_TABLE_NO_ROOM] = {"portunus_sync_no_room",
                                 "Items of other nodes that the zone had no room for."},
        [STORE_TABLE_UNREADABLE] = {"portunus_sync_unreadable",
                                    "Items that no node with this password wrote."},
        [STORE_TABLE_TOO_LARGE] = {"portunus_sync_too_large",
                                   "Items that are too large for other nodes."},
        [STORE_TABLE_FORGOTTEN] = {"portunus_sync_forgotten",
                                   "Changes lost as too many waited for the store."},
        [STORE_TABLE_READS] = {"portunus_sync_reads", "Times that all items were read."},
    };
    const struct store_table *first = store_table_first(&generation_now->conf);

    for (unsigned i = 0; first != NULL && i < STORE_TABLE_COUNTERS; i++) {
        family_begin(writer, FAMILY_COUNTER, families[i].name, families[i].help);
        for (const struct store_table *at = first; at != NULL; at = store_table_after(at)) {
            metrics_families_put(writer, LABELS({"zone", store_table_name(at)}),
                                 store_table_count(at, (enum store_table_counter) i));
        }
    }
    if (first != NULL) {
        family_begin(writer, FAMILY_GAUGE, "portunus_sync_waiting",
                     "Changes that the store does not have yet.");
    }
    for (const struct store_table *at = first; at != NULL; at = store_table_after(at)) {
        metrics_families_put(writer, LABELS({"zone", store_table_name(at)}),
                             store_table_waiting(at));
    }
}

static void write_discoveries(struct metrics_writer *writer)
{
    static const struct {
        const char *name, *help;
    } families[DISCOVERY_COUNTERS] = {
        [DISCOVERY_REQUESTS] = {"portunus_discovery_requests", "Requests to engines of discovery."},
        [DISCOVERY_CHANGES] = {"portunus_discovery_changes",
                               "Changes of the addresses of services."},
        [DISCOVERY_FAILURES] = {"portunus_discovery_failures",
                                "Requests and watches that failed, and their pauses."},
        [DISCOVERY_REJECTED] = {"portunus_discovery_rejected",
                                "Answers that were malformed or above a limit."},
        [DISCOVERY_SKIPPED] = {"portunus_discovery_skipped",
                               "Entries of answers without an address that can be used."},
    };
    const struct discovery *first = discovery_first(&generation_now->conf);

    for (unsigned i = 0; first != NULL && i < DISCOVERY_COUNTERS; i++) {
        family_begin(writer, FAMILY_COUNTER, families[i].name, families[i].help);
        for (const struct discovery *one = first; one != NULL; one = discovery_after(one)) {
            metrics_families_put(writer, LABELS({"discovery", discovery_name(one)}),
                                 atomic_load(&discovery_counts_of(one)->of[i]));
        }
    }
    if (first != NULL) {
        family_begin(writer, FAMILY_GAUGE, "portunus_discovery_failing",
                     "Services whose engine does not answer: their addresses stay as they are.");
    }
    for (const struct discovery *one = first; one != NULL; one = discovery_after(one)) {
        metrics_families_put(writer, LABELS({"discovery", discovery_name(one)}),
                             discovery_failing(one));
    }
}

/* Resident memory of a process; false: not known, as it is gone. */
static bool resident_bytes(pid_t pid, uint64_t *bytes)
{
    unsigned long long size = 0;
    unsigned long long pages = 0;
    char path[40];

    snprintf(path, sizeof(path), "/proc/%d/statm", (int) pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    bool is_known = fscanf(file, "%llu %llu", &size, &pages) == 2;
    fclose(file);
    *bytes = pages * (uint64_t) sysconf(_SC_PAGESIZE);
    return is_known;
}

static void write_memory(struct metrics_writer *writer)
{
    family_begin(writer, FAMILY_GAUGE, "portunus_worker_resident_memory_bytes",
                 "Resident memory of the worker of each slot; what workers share is in each.");
    for (unsigned slot = 0; slot < generation_now->slots; slot++) {
        pid_t pid = workers_pid(slot);
        uint64_t bytes;

        if (pid != 0 && resident_bytes(pid, &bytes)) {
            put_slot(writer, slot, bytes);
        }
    }
    family_begin(writer, FAMILY_GAUGE, "portunus_lua_memory_bytes",
                 "Memory of Lua in the worker of each slot, as of the last script that ended.");
    for (unsigned slot = 0; slot < generation_now->slots; slot++) {
        struct slot_counters counters;

        if (worker_counters(slot, &counters)) {
            put_slot(writer, slot, counters.lua_memory);
        }
    }
}

static void write_service(struct metrics_writer *writer)
{
    struct slot_counters sum;

    counters_sum(&sum);
    family_begin(writer, FAMILY_INFO, "portunus_build", "Which program this is.");
    metrics_families_put(writer, LABELS({"version", STR(PORTUNUS_VERSION)}), 1);
    put_one(writer, FAMILY_GAUGE, "portunus_workers", "Workers of this configuration.",
            generation_now->slots);
    put_one(writer, FAMILY_COUNTER, "portunus_reloads",
            "Configurations read since the start, without the first.", generation_now->number - 1);
    put_one(writer, FAMILY_COUNTER, "portunus_reload_failures",
            "Reloads that changed nothing, as the configuration was not fit.", sum.reload_failures);
    put_one(writer, FAMILY_COUNTER, "portunus_worker_stalls",
            "Turns of event loops that took longer than stall_threshold.", sum.stalls);
    family_begin(writer, FAMILY_COUNTER, "portunus_trace_spans",
                 "Spans of requests by what became of them on the way to the collector.");
    metrics_families_put(writer, LABELS({"result", STR("sent")}), sum.spans_sent);
    metrics_families_put(writer, LABELS({"result", STR("dropped")}), sum.spans_dropped);
    family_begin(writer, FAMILY_COUNTER, "portunus_log_records",
                 "Log records by what became of them on the way to the collector.");
    metrics_families_put(writer, LABELS({"result", STR("sent")}), sum.records_sent);
    metrics_families_put(writer, LABELS({"result", STR("dropped")}), sum.records_dropped);
    put_one(writer, FAMILY_COUNTER, "portunus_metric_exports_dropped",
            "Times that the collector did not take the metrics.", sum.metrics_dropped);
    write_memory(writer);
}

void metrics_write(struct buf *out, struct arena *arena, struct conf *conf,
                   const struct metrics_form *form)
{
    struct metrics_writer writer = {.form = form, .out = out};

    write_service(&writer);
    write_connections(&writer);
    write_requests(&writer, arena);
    write_peers(&writer, arena, &upstream_http, http_peer_families);
    write_peers(&writer, arena, &upstream_stream, stream_peer_families);
    write_limits(&writer);
    write_caches(&writer);
    write_shards(&writer);
    write_certificates(&writer, arena, http_main_of(conf));
    write_orders(&writer);
    write_zones(&writer);
    write_keyvals(&writer);
    write_stores(&writer);
    write_tables(&writer);
    write_discoveries(&writer);
    families_end(&writer);
}
