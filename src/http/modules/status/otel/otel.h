/* ngx_otel_module: requests as spans of OpenTelemetry; log records and metrics. */
#ifndef HTTP_MODULES_STATUS_OTEL_OTEL_H
#define HTTP_MODULES_STATUS_OTEL_OTEL_H

#include "http/message/trace_context.h"
#include "http/request/request.h"
#include "shared/tls/client.h"
#include "upstream/upstream.h"

enum otel_protocol { OTEL_GRPC, OTEL_HTTP };

/* What is sent. Each has batches, a connection and a path of its own. */
enum otel_signal { OTEL_TRACES, OTEL_LOGS, OTEL_METRICS, OTEL_SIGNALS };

/* A name and its text, as a line of the configuration has them. */
struct otel_pair {
    struct str name, value;
};

/* The otel_exporter block. */
struct otel_exporter {
    struct str endpoint;
    uint64_t interval_ms, timeout_ms;
    int64_t batch_size, batch_count;
    struct vec headers; /* struct otel_pair: names in lower case */
    struct str trusted_certificate;
    unsigned protocol; /* enum otel_protocol */

    /* Derived. */
    const struct conf_node *node;
    struct str authority;           /* host and port as written */
    struct str paths[OTEL_SIGNALS]; /* of OTEL_HTTP; empty: the endpoint has none for it */
    struct upstream_group *group;
    struct tls_client_settings tls;             /* as far as they are needed */
    const struct upstream_connection_tls *link; /* NULL: in plain */
};

#define OTEL_UNKNOWN_SERVICE "unknown_service:nginx"

/* Of the http block. */
struct otel_main {
    struct str service_name;
    struct vec resource; /* struct otel_pair */
    struct otel_exporter *exporter;
    unsigned error_log;  /* enum log_level: lines that are sent, as important at least; LOG_STDERR:
                            none */
    uint64_t metrics_ms; /* from one export of the metrics to the next; 0: there is none */
};

enum otel_trace_context { OTEL_IGNORE = 0, OTEL_EXTRACT = 1, OTEL_INJECT = 2, OTEL_PROPAGATE = 3 };

#define OTEL_ALL ((uint64_t) 1 << 32) /* a share of all requests */

/* Of a location. */
struct otel_settings {
    struct template
        *trace;     /* on, off, a share in percent, or what is one of the first two for a request */
    uint64_t share; /* of requests: 0 = none, OTEL_ALL = all */
    bool is_variable;            /* trace has to be evaluated */
    unsigned context;            /* enum otel_trace_context */
    struct template *span_name;  /* NULL: the location's name */
    struct vec attributes;       /* struct key_template */
    struct template *access_log; /* text of the log record of each request; empty or "off": none */
    bool has_upstream_spans;     /* each attempt at a backend is a span, too */
    bool has_internal_spans;     /* what the request goes through are spans, too: parts.c */

    /* Derived: otel_lay_out_span. */
    struct str laid_out; /* fields that all its spans have */
    bool has_name;       /* the name is one of them */
};

extern struct settings_key otel_key;

TYPED_SETTINGS(otel_settings_at, struct otel_settings, otel_key, struct http_location)

/* Is nothing recorded here, whatever the request is? */
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

/* ---- context.c: the trace of a request ---- */

/* Of a main request. */
struct otel_context {
    struct traceparent own;                /* of its span; sampled: it is recorded */
    unsigned char parent_id[SPAN_ID_SIZE]; /* with has_parent */
    struct str state;                      /* tracestate as it came; or empty */
    bool is_made;
    bool has_parent;
    bool is_parent_sampled;
    bool is_injected; /* the fields of the request say it */
};

/* The context of the main request; made where there is none yet, as this location wants it. */
struct otel_context *otel_context_of(struct request *request);
/* The same; NULL: it has none. */
struct otel_context *otel_context_made(const struct request *request);
/* When a worker starts: chance is its own. share: that of all locations, for otel_log_share. */
void otel_contexts_start(uint64_t share);
/* When a request is logged that nothing has asked about so far, as one share holds for all. */
enum handler_result otel_log_share(struct request *request);
/* At a location of a main request: whether it is recorded, and what backends receive. */
enum handler_result otel_enter_location(struct request *request);
/* When it is logged: a request that came to no location is asked about here. */
enum handler_result otel_log(struct request *request);

/* ---- parts.c: what a request went through ---- */

/* A span within that of the request. */
struct otel_part {
    struct str name, key, value; /* key: of its attribute; empty: it has none */
    unsigned status;             /* of a subrequest's response; 0: it is none */
    uint64_t began_ns, ended_ns; /* of clock_read_ns */
};

/* From here on the parts of the request are kept, in its arena. */
void otel_parts_begin(struct request *request);
/* The parts so far, struct otel_part; NULL: none are kept. *dropped: how many found no room. */
const struct vec *otel_parts_of(const struct request *request, unsigned *dropped);

/* ---- span.c: what is sent ---- */

/* When the configuration was read: what all spans of a location of that name have. */
void otel_lay_out_span(struct otel_settings *settings, struct arena *arena, struct str name);
/* Appends the field `spans` of a request that has ended. */
void otel_put_span(struct buf *out, struct request *request, const struct otel_context *context);
struct attempt;
/* The same of an attempt at a backend, as a child of the request's span. */
void otel_put_attempt(struct buf *out, const struct otel_context *context,
                      const struct attempt *attempt);
/* The same of a part. */
void otel_put_part(struct buf *out, const struct request *request,
                   const struct otel_context *context, const struct otel_part *part);
/* Attributes of a request, those that its span has; at most SPAN_ROOM / 2 bytes. */
char *otel_put_attributes(char *at, unsigned field, struct request *request);

/* ---- block.c: the block otel_exporter ---- */

extern const struct directive_table otel_exporter_table;
bool otel_exporter_enter(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings);

/* ---- frame.c: what is around a batch ---- */

/* Bytes at most of what comes before the spans, log records or metrics of a message. */
size_t otel_frame_most(const struct otel_main *main);
/* Writes that before the items, which come after frame_most bytes of the room. Gives the message,
 * which ends with the room. */
struct str otel_put_frame(struct str room, const struct otel_main *main, size_t frame_most);
/* What the collector has said: items that it refused, with a reason of its own. False: it said
 * nothing of the kind. */
bool otel_read_refusal(struct str answer, uint64_t *refused, struct str *reason);

/* ---- logs.c: lines of logs ---- */

/* From now on the worker's lines of the error log are kept for the collector. False: no memory. */
bool otel_error_log_start(struct generation *generation, const struct otel_main *main);
/* Those that are kept become log records. */
void otel_error_log_drain(struct generation *generation);
void otel_error_log_end(struct generation *generation);
/* Between these two the worker reports about the collector: such lines are not sent to it. */
void otel_error_log_pause(void);
void otel_error_log_resume(void);
/* A request that has ended, as a log record with that text. */
void otel_log_request(struct request *request, struct str text);

/* ---- metrics.c: numbers of the service ---- */

void otel_metrics_start(struct generation *generation, const struct otel_main *main);
/* is_last: they are sent once more. */
void otel_metrics_stop(struct generation *generation, bool is_last);

/* ---- exporter.c: a worker's spans, log records and metrics on their way ---- */

bool otel_exporter_start(struct generation *generation, const struct otel_main *main,
                         enum otel_signal signal);
/* Where the next item is put; otel_exporter_added when it was. NULL: it is dropped, and counted. */
struct buf *otel_exporter_next(struct generation *generation, enum otel_signal signal);
/* It is sent in time. */
void otel_exporter_added(struct generation *generation, enum otel_signal signal);
/* Items are lost before they come here. */
void otel_exporter_drop(struct generation *generation, enum otel_signal signal, unsigned count);
/* What is left is sent now. */
void otel_exporter_quit(struct generation *generation);
/* What is on its way is abandoned. */
void otel_exporter_abort(struct generation *generation);
void otel_exporter_end(struct generation *generation);
/* Takes the span of a request that has ended; never waits. */
void otel_record(struct request *request, const struct otel_context *context);

/* ---- send.c: one batch to the collector ---- */

struct conn;

/* The connection to the collector, kept from one batch to the next. */
struct otel_link {
    struct conn *conn; /* NULL: there is none */
    struct grpc_link *grpc;
    unsigned next; /* peer of the group that is tried first */
};

enum otel_sent {
    OTEL_SENT,
    OTEL_REFUSED, /* the same batch would be refused again */
    OTEL_FAILED,  /* it may be taken later */
};

/* What became of a batch. */
struct otel_outcome {
    const char *reason; /* for the log, where it was not sent; lives as long as the arena */
    int error;          /* errno after it, or 0 */
    struct str answer;  /* of the collector: a message of OTLP */
};

/* What is sent, and how long it may take. */
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
