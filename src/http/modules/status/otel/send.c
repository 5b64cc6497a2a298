/* Sends a batch to the collector: by gRPC, or as the body of a POST. */
#include <errno.h>

#include "base/clock.h"
#include "http/exchange/probe/probe.h"
#include "config.h"
#include "http/modules/status/otel/otel.h"
#include "net/conn/conn.h"
#include "upstream/peer.h"

#define EXPORT_PATH(SERVICE) STR_INIT("/opentelemetry.proto.collector." SERVICE "/Export")
static const struct str grpc_paths[OTEL_SIGNALS] = {
    [OTEL_TRACES] = EXPORT_PATH("trace.v1.TraceService"),
    [OTEL_LOGS] = EXPORT_PATH("logs.v1.LogsService"),
    [OTEL_METRICS] = EXPORT_PATH("metrics.v1.MetricsService"),
};
#define USER_AGENT STR("Portunus/" PORTUNUS_VERSION)

/* gRPC statuses after which the same message may be sent again (OTLP specification, Failures). */
static bool is_retryable_grpc(int status)
{
    return status == 1 /* CANCELLED */ || status == 4 /* DEADLINE_EXCEEDED */ ||
           status == 8 /* RESOURCE_EXHAUSTED */ || status == 10 /* ABORTED */ ||
           status == 11 /* OUT_OF_RANGE */ || status == 14 /* UNAVAILABLE */ ||
           status == 15 /* DATA_LOSS */;
}

static bool is_retryable_http(unsigned status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

/* ---- the connection ---- */

static const struct conn_owner collector_owner = {.input = 0}; /* wakes the fiber */

void otel_link_close(struct otel_link *link)
{
    if (link->conn != NULL) {
        conn_close(link->conn);
        link->conn = NULL;
    }
    *link->grpc = (struct grpc_link){.stream = 0};
}

static const struct peer *peer_at(const struct peer_list *list, unsigned number)
{
    number %= list->count;
    return number < list->primary.count ? &list->primary.peers[number]
                                        : &list->backup.peers[number - list->primary.count];
}

/* Opens a connection to the next address; after a failure the one after it is next. MAY WAIT. */
static bool connect_collector(struct otel_link *link, const struct otel_exporter *exporter,
                              struct health_probe *probe)
{
    static const struct log nowhere; /* failures are logged once, for the batch */
    const struct upstream_connection_options options = {.tls = exporter->link};
    struct upstream_pick pick = {.arena = probe->arena, .log = &nowhere};
    struct upstream_target target = {.log = &nowhere};
    enum upstream_connect_result result = UPSTREAM_CONNECT_ERROR;

    upstream_pick_begin(&pick, exporter->group);
    if (pick.list->count != 0) {
        const struct peer *peer = peer_at(pick.list, link->next);
        target.addr = peer->addr;
        target.name = arena_dup(probe->arena, peer->name);
    }
    upstream_pick_end(&pick);
    if (target.addr.len == 0) {
        return health_fail(probe, "address, which is not known", 0);
    }
    result = upstream_connection_reach(&target, &options, probe->deadline_ms, &link->conn,
                                       &probe->error);
    if (result != UPSTREAM_CONNECT_OK) {
        link->conn = NULL;
        link->next++;
        return health_fail(probe, "connection",
                           probe->error == 0 && result == UPSTREAM_CONNECT_TIMED_OUT
                               ? ETIMEDOUT
                               : probe->error);
    }
    link->conn->owner = &collector_owner;
    link->conn->is_readable = 1;
    return true;
}

/* ---- gRPC ---- */

static enum otel_sent judge_grpc(const struct probe_grpc *grpc, struct arena *arena,
                                 struct otel_outcome *outcome)
{
    if (grpc->grpc_status >= 0) {
        if (grpc->grpc_status != 0) {
            outcome->reason =
                arena_printf(arena, "gRPC status %d \"%s\"", grpc->grpc_status, grpc->status_text)
                    .data;
            return is_retryable_grpc(grpc->grpc_status) ? OTEL_FAILED : OTEL_REFUSED;
        }
        if (grpc->http_status == 200) {
            struct str message = {grpc->message, grpc->message_size};
            outcome->answer = message.len > 5 ? str_skip(message, 5) : STR_NONE;
            return OTEL_SENT;
        }
    }
    outcome->reason = arena_printf(arena, "status code %u", grpc->http_status).data;
    return is_retryable_http(grpc->http_status) ? OTEL_FAILED : OTEL_REFUSED;
}

static enum otel_sent send_grpc(struct otel_link *link, const struct otel_exporter *exporter,
                                struct health_probe *probe, const struct otel_message *message,
                                struct otel_outcome *outcome)
{
    struct vec metadata = {0};
    struct probe_grpc *grpc = arena_new(probe->arena, struct probe_grpc);

    grpc->arena = probe->arena;
    grpc->link = link->grpc;
    grpc->grpc_status = -1;
    vec_each(const struct otel_pair, header, &exporter->headers) {
        *vec_add(&metadata, probe->arena, struct probe_param) =
            (struct probe_param){header->name, header->value};
    }
    const struct grpc_call call = {
        .authority = exporter->authority,
        .path = grpc_paths[message->signal],
        .is_https = exporter->link != NULL,
        .user_agent = USER_AGENT,
        .metadata = metadata.items,
        .metadata_count = (unsigned) metadata.count,
        .message = message->bytes,
    };
    if (!grpc_call_run(probe, &call, grpc)) {
        otel_link_close(link);
        return OTEL_FAILED;
    }
    if (link->grpc->is_closing) {
        otel_link_close(link);
    }
    return judge_grpc(grpc, probe->arena, outcome);
}

/* ---- HTTP ---- */

static struct str http_head(const struct otel_exporter *exporter, struct arena *arena,
                            const struct otel_message *message)
{
    struct str head =
        arena_printf(arena,
                     "POST %.*s HTTP/1.1\r\nHost: %.*s\r\nContent-Type: application/x-protobuf\r\n"
                     "User-Agent: %.*s\r\nContent-Length: %zu\r\n",
                     STR_ARG(exporter->paths[message->signal]), STR_ARG(exporter->authority),
                     STR_ARG(USER_AGENT), message->bytes.len);

    vec_each(const struct otel_pair, header, &exporter->headers) {
        head = arena_printf(arena, "%.*s%.*s: %.*s\r\n", STR_ARG(head), STR_ARG(header->name),
                            STR_ARG(header->value));
    }
    return arena_concat(arena, head, STR("\r\n"));
}

static bool read_http(struct health_probe *probe, struct probe_parser *parser)
{
    enum probe_step step;

    return probe_receive(probe, parser, &step) &&
           (step == PROBE_DONE || health_fail(probe, parser->reason, 0));
}

static enum otel_sent send_http(struct otel_link *link, const struct otel_exporter *exporter,
                                struct health_probe *probe, const struct otel_message *message,
                                struct otel_outcome *outcome)
{
    struct probe_parser *parser = arena_new(probe->arena, struct probe_parser);

    parser->arena = probe->arena;
    parser->wants_body = true;
    parser->wants_end = true;
    conn_write(probe->conn, http_head(exporter, probe->arena, message));
    conn_write_reference(probe->conn, message->bytes, NULL, NULL);
    if (!conn_flush(probe->conn)) {
        health_fail(probe, "connection, while sending", probe->conn->error);
        otel_link_close(link);
        return OTEL_FAILED;
    }
    if (!read_http(probe, parser)) {
        otel_link_close(link);
        return OTEL_FAILED;
    }
    /* Unsent bytes of the message would reference memory that is freed. */
    if (!parser->may_keep || conn_input_len(probe->conn) != 0 || conn_unsent(probe->conn) != 0) {
        otel_link_close(link);
    }
    unsigned status = parser->response.status;
    if (status >= 200 && status < 300) {
        outcome->answer = parser->response.body;
        return OTEL_SENT;
    }
    outcome->reason = arena_printf(probe->arena, "status code %u", status).data;
    return is_retryable_http(status) ? OTEL_FAILED : OTEL_REFUSED;
}

/* Uses the existing connection, or a new one. */
static enum otel_sent send_once(struct otel_link *link, const struct otel_exporter *exporter,
                                struct health_probe *probe, const struct otel_message *message,
                                struct otel_outcome *outcome)
{
    if (link->conn == NULL && !connect_collector(link, exporter, probe)) {
        return OTEL_FAILED;
    }
    probe->conn = link->conn;
    return exporter->protocol == OTEL_GRPC ? send_grpc(link, exporter, probe, message, outcome)
                                           : send_http(link, exporter, probe, message, outcome);
}

enum otel_sent otel_send(struct otel_link *link, const struct otel_exporter *exporter,
                         struct arena *arena, const struct otel_message *message,
                         struct otel_outcome *outcome)
{
    struct health_probe probe = {.deadline_ms = message->deadline_ms, .arena = arena};

    if (link->conn != NULL && conn_peer_is_gone(link->conn)) {
        otel_link_close(link);
    }
    bool is_kept = link->conn != NULL;
    enum otel_sent sent = send_once(link, exporter, &probe, message, outcome);
    if (sent == OTEL_FAILED && is_kept && link->conn == NULL && outcome->reason == NULL &&
        !fiber_is_cancelled()) {
        probe.reason = NULL; /* the collector had closed it */
        probe.error = 0;
        sent = send_once(link, exporter, &probe, message, outcome);
    }
    if (outcome->reason == NULL) {
        outcome->reason = probe.reason == NULL ? "answer" : probe.reason;
        outcome->error = probe.error;
    }
    if (link->conn != NULL) {
        conn_input_release(link->conn);
    }
    return sent;
}
