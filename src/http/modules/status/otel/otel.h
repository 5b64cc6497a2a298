/* ngx_otel_module: requests as spans of OpenTelemetry. */
#ifndef HTTP_MODULES_STATUS_OTEL_OTEL_H
#define HTTP_MODULES_STATUS_OTEL_OTEL_H

#include "http/message/trace_context.h"
#include "http/request/request.h"
#include "shared/tls/client.h"
#include "upstream/upstream.h"

enum otel_protocol { OTEL_GRPC, OTEL_HTTP };

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
    struct str authority; /* host and port as written */
    struct str path;      /* of OTEL_HTTP */
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
};

enum otel_trace_context { OTEL_IGNORE = 0, OTEL_EXTRACT = 1, OTEL_INJECT = 2, OTEL_PROPAGATE = 3 };

#define OTEL_ALL ((uint64_t) 1 << 32) /* a share of all requests */

/* Of a location. */
struct otel_settings {
    struct template
        *trace;     /* on, off, a share in percent, or what is one of the first two for a request */
    uint64_t share; /* of requests: 0 = none, OTEL_ALL = all */
    bool is_variable;           /* trace has to be evaluated */
    unsigned context;           /* enum otel_trace_context */
    struct template *span_name; /* NULL: the location's name */
    struct vec attributes;      /* struct key_template */
    bool has_upstream_spans;    /* each attempt at a backend is a span, too */
    bool has_internal_spans;    /* what the request goes through are spans, too: parts.c */
};

extern struct settings_key otel_key;

TYPED_SETTINGS(otel_settings_at, struct otel_settings, otel_key, struct http_location)

/* Is nothing recorded here, whatever the request is? */
static inline bool otel_is_off(const struct otel_settings *settings)
{
    return settings->share == 0 && !settings->is_variable;
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
/* When a worker starts: chance is its own. */
void otel_contexts_start(void);
/* At a location of a main request: whether it is recorded, and what backends receive. */
enum handler_result otel_enter_location(struct request *request);
/* When it is logged: a request that came to no location is asked about here. */
bool otel_is_recorded(struct request *request);

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

/* Appends the field `spans` of a request that has ended. */
void otel_put_span(struct buf *out, struct request *request);
struct attempt;
/* The same of an attempt at a backend, as a child of the request's span. */
void otel_put_attempt(struct buf *out, struct request *request, const struct attempt *attempt);
/* The same of a part. */
void otel_put_part(struct buf *out, struct request *request, const struct otel_part *part);
/* The message around `spans` of a batch: what comes before them. */
void otel_put_frame(struct buf *out, const struct otel_main *main, size_t spans_size);
/* What the collector has said: spans that it refused, with a reason of its own. False: it said nothing of the kind. */
bool otel_read_refusal(struct str answer, uint64_t *refused, struct str *reason);

/* ---- exporter.c: a worker's spans on their way ---- */

bool otel_exporter_start(struct generation *generation, const struct otel_main *main);
/* What is left is sent now. */
void otel_exporter_quit(struct generation *generation);
/* What is on its way is abandoned. */
void otel_exporter_abort(struct generation *generation);
void otel_exporter_end(struct generation *generation);
/* Takes the span of a request that has ended; never waits. */
void otel_record(struct request *request);

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

/* Sends a message. MAY WAIT until the deadline. */
enum otel_sent otel_send(struct otel_link *link, const struct otel_exporter *exporter,
                         struct arena *arena, struct str message, uint64_t deadline_ms,
                         struct otel_outcome *outcome);
void otel_link_close(struct otel_link *link);

#endif
