/* Metrics of cells, workers and the service, family by family. */
#include <stdio.h>
#include <unistd.h>

#include "config.h"

#include "base/clock.h"
#include "base/map.h"
#include "http/client/protocol.h"
#include "shared/metrics/counters.h"
#include "http/modules/status/metrics/families.h"
#include "http/modules/status/metrics/metrics.h"
#include "shared/metrics/peers.h"
#include "shared/metrics/writer.h"
#include "net/shards/listener.h"
#include "server/generation.h"
#include "upstream/peer.h"

void families_put(struct metrics_writer *writer, const struct label *labels, uint64_t value)
{
    family_put(writer, labels, value, UNIT_ONE);
}

void families_one(struct metrics_writer *writer, enum family_type type, const char *name,
                  const char *help, uint64_t value)
{
    family_begin(writer, type, name, help);
    families_put(writer, NULL, value);
}

/* ---- requests, by series ---- */

/* The labels of a series: two at most, with space for another. */
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
            families_put(writer, labels, cell->codes[i]);
        }
    }
}

static void put_received(struct metrics_writer *writer, struct label *labels,
                         const struct metrics_cell *cell)
{
    families_put(writer, labels, cell->received);
}

static void put_sent(struct metrics_writer *writer, struct label *labels,
                     const struct metrics_cell *cell)
{
    families_put(writer, labels, cell->sent);
}

static void put_times(struct metrics_writer *writer, struct label *labels,
                      const struct metrics_cell *cell)
{
    family_put_histogram(writer, labels, cell);
}

/* A family about requests, with samples for each kind of series. */
struct request_family {
    const char *names[SERIES_KINDS];
    const char *help;
    enum family_type type;
    /* May append a label. */
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
    families_one(writer, FAMILY_COUNTER, "portunus_metrics_lost",
                 "Series and requests that are not counted, for want of room.", metrics_lost());
}

/* ---- connections and TLS ---- */

static void write_connections(struct metrics_writer *writer)
{
    struct slot_counters sum;

    counters_sum(&sum);
    families_one(writer, FAMILY_COUNTER, "portunus_connections_accepted", "Connections accepted.",
                 sum.accepted);
    families_one(writer, FAMILY_COUNTER, "portunus_connections_handled", "Connections served.",
                 sum.handled);
    family_begin(writer, FAMILY_GAUGE, "portunus_connections",
                 "Connections that are open, by state.");
    families_put(writer, LABELS({"state", STR("active")}), sum.active);
    families_put(writer, LABELS({"state", STR("reading")}), sum.reading);
    families_put(writer, LABELS({"state", STR("writing")}), sum.writing);
    families_put(writer, LABELS({"state", STR("waiting")}), sum.waiting);
    families_one(writer, FAMILY_COUNTER, "portunus_requests", "Requests.", sum.requests);
    families_one(writer, FAMILY_COUNTER, "portunus_limits_reached",
                 "Requests and connections that a limit on what a peer may do has refused.",
                 sum.limited);
    families_one(writer, FAMILY_COUNTER, "portunus_http2_connections", "Connections of HTTP/2.",
                 sum.h2_connections);
    family_begin(writer, FAMILY_COUNTER, "portunus_tls_handshakes",
                 "Handshakes with clients that came to their end, by version of TLS.");
    families_put(writer, LABELS({"version", STR("1.3")}), sum.tls_version_1_3);
    families_put(writer, LABELS({"version", STR("1.2")}), sum.tls_handshakes - sum.tls_version_1_3);
    families_one(writer, FAMILY_COUNTER, "portunus_tls_resumed",
                 "Handshakes that took up a session.", sum.tls_resumed);
    families_one(writer, FAMILY_COUNTER, "portunus_tls_failures", "Handshakes that failed.",
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
    /* Servers with the same name have one sample: that of the first with a certificate. */
    struct map seen = {0};
    vec_each(struct http_server *, server, &main->servers) {
        struct str name = (*server)->name.len == 0 ? STR("_") : (*server)->name;
        int64_t end = main->handshake->expires(*server);

        if (end != 0 && map_get(&seen, name) == NULL) {
            map_put(&seen, arena, name, *server);
            families_put(writer, LABELS({"server", name}), (uint64_t) end);
        }
    }
}

static void put_slot(struct metrics_writer *writer, unsigned slot, uint64_t value)
{
    char number[16];

    snprintf(number, sizeof(number), "%u", slot);
    families_put(writer, LABELS({"slot", str_of(number)}), value);
}

/* A socket that all slots share is counted for the first slot. */
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
        families_put(writer, LABELS({"slot", str_of(number)}, {"by", STR("own")}), counts.own);
        families_put(writer, LABELS({"slot", str_of(number)}, {"by", STR("sibling")}),
                     counts.taken);
        families_put(writer, LABELS({"slot", str_of(number)}, {"by", STR("survivor")}),
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
    families_one(writer, FAMILY_COUNTER, "portunus_shard_steerings",
                 "Times that new connections were steered to other slots.", shard_steerings());
}

/* ---- groups ---- */

static void put_up(struct metrics_writer *writer, const struct label *labels,
                   const struct peer *peer)
{
    families_put(writer, labels,
                 !peer_is_down(peer) && atomic_load(&peer->cell->is_unhealthy) == 0);
}

static void put_active(struct metrics_writer *writer, const struct label *labels,
                       const struct peer *peer)
{
    families_put(writer, labels, peer_active(peer->cell));
}

static void put_open(struct metrics_writer *writer, const struct label *labels,
                     const struct peer *peer)
{
    families_put(writer, labels, peer_open(peer->cell));
}

static void put_fails(struct metrics_writer *writer, const struct label *labels,
                      const struct peer *peer)
{
    families_put(writer, labels, atomic_load(&peer->cell->fails));
}

static void put_response_time(struct metrics_writer *writer, const struct label *labels,
                              const struct peer *peer)
{
    family_put(writer, labels, atomic_load(&peer->cell->times_us[PEER_TIME_LAST_BYTE]),
               UNIT_MICROSECOND);
}

/* A family about the current state of peers. */
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

/* ---- the service ---- */

/* Resident memory of a process; false: unknown, since the process has ended. */
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
    families_put(writer, LABELS({"version", STR(PORTUNUS_VERSION)}), 1);
    families_one(writer, FAMILY_GAUGE, "portunus_workers", "Workers of this configuration.",
                 generation_now->slots);
    families_one(writer, FAMILY_COUNTER, "portunus_reloads",
                 "Configurations read since the start, without the first.",
                 generation_now->number - 1);
    families_one(writer, FAMILY_COUNTER, "portunus_reload_failures",
                 "Reloads that changed nothing, as the configuration was not fit.",
                 sum.reload_failures);
    families_one(writer, FAMILY_COUNTER, "portunus_worker_stalls",
                 "Turns of event loops that took longer than stall_threshold.", sum.stalls);
    family_begin(writer, FAMILY_COUNTER, "portunus_trace_spans",
                 "Spans of requests by what became of them on the way to the collector.");
    families_put(writer, LABELS({"result", STR("sent")}), sum.spans_sent);
    families_put(writer, LABELS({"result", STR("dropped")}), sum.spans_dropped);
    family_begin(writer, FAMILY_COUNTER, "portunus_log_records",
                 "Log records by what became of them on the way to the collector.");
    families_put(writer, LABELS({"result", STR("sent")}), sum.records_sent);
    families_put(writer, LABELS({"result", STR("dropped")}), sum.records_dropped);
    families_one(writer, FAMILY_COUNTER, "portunus_metric_exports_dropped",
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
    write_shards(&writer);
    write_certificates(&writer, arena, http_main_of(conf));
    families_write_kept(&writer);
    families_end(&writer);
}
