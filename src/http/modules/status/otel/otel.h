/* ngx_otel_module: requests as OpenTelemetry spans; log records and metrics. */
#ifndef HTTP_MODULES_STATUS_OTEL_OTEL_H
#define HTTP_MODULES_STATUS_OTEL_OTEL_H

#include "http/message/trace_context.h"
#include "http/routing/settings.h"
#include "shared/tls/client.h"
#include "upstream/upstream.h"

struct request;

enum otel_protocol { OTEL_GRPC, OTEL_HTTP };

/* The signals. Each has its own batches, connection and path. */
enum otel_signal { OTEL_TRACES, OTEL_LOGS, OTEL_METRICS, OTEL_SIGNALS };

/* A name and a value from the configuration. */
struct otel_pair {
    struct str name, value;
};

/* The block otel_exporter. */
struct otel_exporter {
    struct str endpoint;
    uint64_t interval_ms, timeout_ms;
    int64_t batch_size, batch_count;
    struct vec headers; /* struct otel_pair: names in lower case */
    struct str trusted_certificate;
    unsigned protocol; /* an enum otel_protocol */

    /* Derived. */
    const struct conf_node *node;
    struct str authority;           /* host and port as written */
    struct str paths[OTEL_SIGNALS]; /* for OTEL_HTTP; empty: unknown for this signal */
    struct upstream_group *group;
    struct tls_client_settings tls;             /* only as far as needed */
    const struct upstream_connection_tls *link; /* NULL: no TLS */
};

#define OTEL_UNKNOWN_SERVICE "unknown_service:nginx"

/* Settings of the http block. */
struct otel_main {
    struct str service_name;
    struct vec resource; /* struct otel_pair */
    struct otel_exporter *exporter;
    unsigned
        error_log; /* an enum log_level: the least important level that is sent; LOG_STDERR: none */
    uint64_t metrics_ms; /* interval of metrics exports; 0: none */
};

enum otel_trace_context { OTEL_IGNORE = 0, OTEL_EXTRACT = 1, OTEL_INJECT = 2, OTEL_PROPAGATE = 3 };

#define OTEL_ALL ((uint64_t) 1 << 32) /* the share of all requests */

/* Settings of a location. */
struct otel_settings {
    struct template
        *trace; /* on, off, a share in percent, or a value that becomes "on" or "off" per request */
    uint64_t share;              /* of requests: 0 = none, OTEL_ALL = all */
    bool is_variable;            /* `trace` must be evaluated */
    unsigned context;            /* an enum otel_trace_context */
    struct template *span_name;  /* NULL: the location's name */
    struct vec attributes;       /* struct key_template */
    struct template *access_log; /* text of a log record for each request; empty or "off": none */
    bool has_upstream_spans;     /* send a span for each attempt at a backend */
    bool has_internal_spans;     /* send spans for parts of the processing: parts.c */

    /* Derived: otel_lay_out_span. */
    struct str laid_out; /* encoded fields that all its spans have */
    bool has_name;       /* the name is one of them */
};

extern struct settings_key otel_key;

TYPED_SETTINGS(otel_settings_at, struct otel_settings, otel_key, struct http_location)

/* Is no request recorded here? */
static inline bool otel_is_off(const struct otel_settings *settings)
{
    return settings->share == 0 && !settings->is_variable;
}

/* Do requests have log records here? */
static inline bool otel_has_record(const struct otel_settings *settings)
{
    return settings->access_log != NULL &&
           !(settings->access_log->is_constant && str_is(settings->access_log->constant, "off"));
}

/* ---- context.c: the trace context of a request ---- */

/* Data of a main request. */
struct otel_context {
    struct traceparent own;                /* of its span; sampled: it is recorded */
    unsigned char parent_id[SPAN_ID_SIZE]; /* if has_parent */
    struct str state;                      /* the received tracestate; or empty */
    bool is_made;
    bool has_parent;
    bool is_parent_sampled;
    bool is_injected; /* the request has its fields */
};

/* The context of the main request; made, if necessary, according to this location. */
struct otel_context *otel_context_of(struct request *request);
/* The same; NULL: it has not been made. */
struct otel_context *otel_context_made(const struct request *request);
/* Called when a worker starts: seeds its random numbers. share: that of all locations, for
 * otel_log_share. */
void otel_contexts_start(uint64_t share);
/* Called when a request is logged, if one share applies to all: decides and records. */
enum handler_result otel_log_share(struct request *request);
/* Called when a main request reaches a location: decides whether it is recorded, and sets fields
 * for backends. */
enum handler_result otel_enter_location(struct request *request);
/* Called when a request is logged: decides if it has reached no location, and records. */
enum handler_result otel_log(struct request *request);

/* ---- parts.c: parts of the processing ---- */

/* A span within that of the request. */
struct otel_part {
    struct str name, key, value; /* key: of its attribute; empty: none */
    unsigned status;             /* of a subrequest's response; 0: it is not a subrequest */
    uint64_t began_ns, ended_ns; /* from clock_read_ns */
};

/* Begins to collect parts of the request, in its arena. */
void otel_parts_begin(struct request *request);
/* The parts so far, struct otel_part; NULL: not collected. *dropped: number of parts beyond the
 * limit. */
const struct vec *otel_parts_of(const struct request *request, unsigned *dropped);

/* ---- span.c: encoding of spans ---- */

/* Called after the configuration was read: encodes the fields common to all spans of a location
 * with this name. */
void otel_lay_out_span(struct otel_settings *settings, struct arena *arena, struct str name);
/* Appends the field `spans` of a request that has ended. */
void otel_put_span(struct buf *out, struct request *request, const struct otel_context *context);
struct attempt;
/* The same for an attempt at a backend, as a child of the request's span. */
void otel_put_attempt(struct buf *out, const struct otel_context *context,
                      const struct attempt *attempt);
/* The same for a part. */
void otel_put_part(struct buf *out, const struct request *request,
                   const struct otel_context *context, const struct otel_part *part);
/* Writes the attributes of a request, the same as in its span; at most SPAN_SIZE / 2 bytes. */
char *otel_put_attributes(char *at, unsigned field, struct request *request);

/* ---- block.c: the block otel_exporter ---- */

extern const struct directive_table otel_exporter_table;
bool otel_exporter_enter(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings);

/* ---- frame.c: the message around a batch ---- */

/* The maximum size of what precedes the spans, log records or metrics of a message. */
size_t otel_frame_most(const struct otel_main *main);
/* Writes what precedes the items, which begin after frame_most bytes of `buffer`. Returns the
 * message, which ends at the end of `buffer`. */
struct str otel_put_frame(struct str buffer, const struct otel_main *main, size_t frame_most);
/* Parses a response of the collector: the number of rejected items, and the reason. False: none
 * were rejected. */
bool otel_read_refusal(struct str answer, uint64_t *refused, struct str *reason);

/* ---- logs.c: log records ---- */

/* Begins to store the worker's error log lines for the collector. False: no memory. */
bool otel_error_log_start(struct generation *generation, const struct otel_main *main);
/* Converts the stored lines to log records. */
void otel_error_log_drain(struct generation *generation);
void otel_error_log_end(struct generation *generation);
/* Log messages about the collector are written between these two calls, and are not sent to it. */
void otel_error_log_pause(void);
void otel_error_log_resume(void);
/* Sends a log record with this text for a request that has ended. */
void otel_log_request(struct request *request, struct str text);

/* ---- metrics.c: metrics of the service ---- */

void otel_metrics_start(struct generation *generation, const struct otel_main *main);
/* is_last: sends them once more. */
void otel_metrics_stop(struct generation *generation, bool is_last);

/* ---- exporter.c: queues of a worker ---- */

bool otel_exporter_start(struct generation *generation, const struct otel_main *main,
                         enum otel_signal signal);
/* The buffer for the next item; call otel_exporter_added after writing it. NULL: it is dropped, and
 * counted. */
struct buf *otel_exporter_next(struct generation *generation, enum otel_signal signal);
/* Schedules sending of the added item. */
void otel_exporter_added(struct generation *generation, enum otel_signal signal);
/* Counts items that were lost before they were added. */
void otel_exporter_drop(struct generation *generation, enum otel_signal signal, unsigned count);
/* Sends everything that remains now. */
void otel_exporter_quit(struct generation *generation);
/* Aborts sending. */
void otel_exporter_abort(struct generation *generation);
void otel_exporter_end(struct generation *generation);
/* Adds the span of a request that has ended; never waits. */
void otel_record(struct request *request, const struct otel_context *context);

/* ---- send.c: sends one batch to the collector ---- */

struct conn;

/* The connection to the collector, kept between batches. */
struct otel_link {
    struct conn *conn; /* NULL: not connected */
    struct grpc_link *grpc;
    unsigned next; /* index of the peer of the group to try next */
};

enum otel_sent {
    OTEL_SENT,
    OTEL_REFUSED, /* the same batch would be rejected again */
    OTEL_FAILED,  /* it may be accepted later */
};

/* The result of sending a batch. */
struct otel_outcome {
    const char *reason; /* for the log, if it failed; lives as long as the arena */
    int error;          /* errno for the reason, or 0 */
    struct str answer;  /* the collector's response: an OTLP message */
};

/* A message and its deadline. */
struct otel_message {
    enum otel_signal signal;
    struct str bytes;
    uint64_t deadline_ms;
};

/* Sends a message. MAY WAIT until the deadline. */
enum otel_sent otel_send(struct otel_link *link, const struct otel_exporter *exporter,
                         struct arena *arena, const struct otel_message *message,
                         struct otel_outcome *outcome);
void otel_link_close(struct otel_link *link);

#endif
