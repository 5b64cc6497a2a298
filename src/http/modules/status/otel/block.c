/* The block `otel_exporter`: address and protocol of the collector. */
#include "base/text.h"
#include "http/modules/status/otel/otel.h"

enum {
    GRPC_PORT = 4317,
    HTTP_PORT = 4318,
    HEADERS_MOST = 8192 /* total bytes of all headers */,
};

static struct settings_key exporter_key;

static const struct directive_word protocol_words[] = {{"grpc", OTEL_GRPC},
                                                       {"http/protobuf", OTEL_HTTP},
                                                       {NULL, 0}};

/* Names become lower case as HTTP/2 requires; characters that would end a field are rejected. */
static bool otel_header_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct otel_exporter *exporter = settings;
    struct str name = node->args[1];
    char *lower = arena_text(scope->conf->arena, name.len + 1);
    size_t size = name.len + node->args[2].len;

    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char) name.data[i];

        if (c <= ' ' || c >= 127 || c == ':') {
            return conf_error(scope->conf, node, "invalid header name \"%.*s\"", STR_ARG(name));
        }
        lower[i] = (char) ascii_lower(c);
    }
    for (size_t i = 0; i < node->args[2].len; i++) {
        if ((unsigned char) node->args[2].data[i] < ' ') {
            return conf_error(scope->conf, node, "invalid value of header \"%.*s\"", STR_ARG(name));
        }
    }
    vec_each(const struct otel_pair, header, &exporter->headers) {
        size += header->name.len + header->value.len;
    }
    if (name.len == 0 || size > HEADERS_MOST) {
        return conf_error(scope->conf, node,
                          name.len == 0 ? "invalid header name \"\"" : "headers are too long");
    }
    *vec_add(&exporter->headers, scope->conf->arena, struct otel_pair) =
        (struct otel_pair){{lower, name.len}, node->args[2]};
    return true;
}

#define TRACES_PATH STR("/v1/traces")

/* The paths of logs and metrics are derived from that of traces; if that is not a standard one,
 * they are unknown. */
static void name_paths(struct arena *arena, struct otel_exporter *exporter, struct str path)
{
    exporter->paths[OTEL_TRACES] = path;
    if (str_ends(path, TRACES_PATH)) {
        struct str start = str_head(path, path.len - strlen("traces"));

        exporter->paths[OTEL_LOGS] = arena_concat(arena, start, STR("logs"));
        exporter->paths[OTEL_METRICS] = arena_concat(arena, start, STR("metrics"));
    }
}

/* [http://|https://]HOST[:PORT][/PATH], or unix:/path. */
static bool read_endpoint(struct conf *conf, struct otel_exporter *exporter, bool *is_encrypted)
{
    struct str rest = exporter->endpoint;

    *is_encrypted = str_starts_nocase(rest, STR("https://"));
    if (*is_encrypted || str_starts_nocase(rest, STR("http://"))) {
        rest = str_skip(rest, *is_encrypted ? 8 : 7);
    }
    struct str path = TRACES_PATH;
    if (!str_starts_nocase(rest, STR("unix:"))) {
        const char *slash = str_find_char(rest, '/');
        if (slash != NULL) {
            struct str written = str_skip(rest, (size_t) (slash - rest.data));
            rest = str_from(rest.data, slash);
            if (written.len > 1 && exporter->protocol == OTEL_GRPC) {
                return conf_error(conf, exporter->node,
                                  "a path in the \"endpoint\" of an exporter by gRPC");
            }
            path = written.len > 1 ? written : path;
        }
    }
    name_paths(conf->arena, exporter, path);
    exporter->authority = str_starts_nocase(rest, STR("unix:")) ? STR("localhost") : rest;
    exporter->group = upstream_use(conf, &upstream_http, exporter->node, rest,
                                   exporter->protocol == OTEL_GRPC ? GRPC_PORT : HTTP_PORT);
    return exporter->group != NULL;
}

/* The collector's certificate is always verified. */
static bool secure_endpoint(struct conf_scope *scope, struct otel_exporter *exporter)
{
    struct tls_client_settings *tls = &exporter->tls;

    tls->is_needed = true;
    tls->protocols = TLS_1_2 | TLS_1_3;
    tls->ciphers = STR("DEFAULT");
    tls->server_name = true;
    tls->session_reuse = true;
    tls->verify = true;
    tls->verify_depth = 9;
    tls->trusted_certificate = exporter->trusted_certificate.len != 0
                                   ? exporter->trusted_certificate
                                   : STR(TLS_SYSTEM_AUTHORITIES);
    if (!tls_client_finish(scope, tls, "otel")) {
        return false;
    }
    exporter->link =
        tls_client_group_link(scope->conf->arena, tls, exporter->group,
                              exporter->protocol == OTEL_GRPC ? STR("\2h2") : STR("\10http/1.1"));
    return true;
}

bool otel_exporter_enter(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct otel_main *main = settings;
    bool is_encrypted = false;
    struct conf_scope *inner = conf_enter(scope, node, IN_OTEL_EXPORTER, NULL, NULL);

    if (inner == NULL) {
        return false;
    }
    struct otel_exporter *exporter = conf_settings(inner, &exporter_key);
    exporter->node = node;
    if (exporter->endpoint.len == 0) {
        return conf_error(scope->conf, node, "\"otel_exporter\" requires \"endpoint\"");
    }
    main->exporter = exporter;
    return read_endpoint(scope->conf, exporter, &is_encrypted) &&
           (!is_encrypted || secure_endpoint(inner, exporter));
}

#define E struct otel_exporter
static const struct directive exporter_rows[] = {
    {"endpoint", IN_OTEL_EXPORTER, STRING(E, endpoint),
     .syntax = "[http:// | https://]host[:port][/path] | unix:path | upstream",
     .doc = "Address of the collector. With https://, TLS is used. The default port is "
            "4317, or 4318 for OTLP over HTTP."},
    {"protocol", IN_OTEL_EXPORTER, ENUM(E, protocol, protocol_words), .initial = "grpc",
     .doc = "Protocol: gRPC, or HTTP with POST requests, which are sent to /v1/traces "
            "unless the endpoint has a path. Logs are sent to /v1/logs and metrics to "
            "/v1/metrics; if the path of the endpoint ends with /v1/traces, this suffix is "
            "replaced."},
    {"interval", IN_OTEL_EXPORTER, MSEC(E, interval_ms), .initial = "5s", .min = 1, .max = 3600000,
     .doc = "Maximum time before a span or a log record is sent."},
    {"batch_size", IN_OTEL_EXPORTER, NUMBER(E, batch_size), .initial = "512", .min = 1,
     .max = 65536,
     .doc = "Maximum number of spans or log records that a worker sends in one batch. A "
            "full batch is sent at once."},
    {"batch_count", IN_OTEL_EXPORTER, NUMBER(E, batch_count), .initial = "4", .min = 1, .max = 1024,
     .doc = "Maximum number of pending batches of spans and of log records per worker, "
            "each of at most 1m bytes. Further ones are dropped and counted."},
    {"timeout", IN_OTEL_EXPORTER, MSEC(E, timeout_ms), .initial = "10s", .min = 1, .max = 3600000,
     .doc = "Time within which the collector must accept a batch, including the connection."},
    {"header", IN_OTEL_EXPORTER, CUSTOM_FIELD(E, headers, otel_header_apply), ARGS(2, 2),
     .repeat = REPEAT_APPEND, .syntax = "name value",
     .doc = "Field of requests to the collector, for example with a key."},
    {"trusted_certificate", IN_OTEL_EXPORTER, CONF_PATH(E, trusted_certificate),
     .doc = "PEM file with the authorities that are trusted for the collector's "
            "certificate; by default, those of the system."},
    {0},
};
#undef E

const struct directive_table otel_exporter_table = {
    .key = &exporter_key,
    .rows = exporter_rows,
    .contexts = IN_OTEL_EXPORTER,
    .size = sizeof(struct otel_exporter),
};
