/* ngx_otel_module: rows, variables, hooks. */
#include "base/parse.h"
#include "base/text.h"
#include "http/modules/status/otel/otel.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/module.h"
#include "shared/metrics/zones.h"
#include "shared/variables/give.h"

enum { NAME_MOST = 255, METRICS_INTERVAL_MOST_MS = 3600000 };

struct settings_key otel_key;
static struct settings_key main_key;

/* ---- http ---- */

/* Computed after all blocks were read. */
struct otel_reading {
    bool is_wanted;                  /* some location records requests */
    bool is_logged;                  /* some location sends log records of requests */
    const struct conf_node *sender;  /* the first directive that needs the exporter */
    const struct conf_node *by_path; /* the first one about logs or metrics */
    const struct otel_main *main;    /* NULL: there is no server */
    bool is_judged, is_uniform;      /* is_uniform was determined; see is_uniform() */
    uint64_t share;                  /* if is_uniform: the share */
};

static struct otel_reading *reading_of(struct conf *conf)
{
    return conf_state(conf, "otel", sizeof(struct otel_reading));
}

/* Notes that this directive needs the exporter. */
static void need_exporter(struct conf *conf, const struct conf_node *node, enum otel_signal signal)
{
    struct otel_reading *reading = reading_of(conf);

    reading->sender = reading->sender == NULL ? node : reading->sender;
    if (signal != OTEL_TRACES) {
        reading->by_path = reading->by_path == NULL ? node : reading->by_path;
    }
}

/* Is it a valid attribute name? */
static bool check_attribute(struct conf *conf, const struct conf_node *node)
{
    struct str rest = node->args[1];
    bool is_sound = rest.len != 0 && rest.len <= NAME_MOST;

    while (is_sound && rest.len != 0) {
        is_sound = utf8_next(&rest) != UINT32_MAX;
    }
    return is_sound ||
           conf_error(conf, node, "invalid attribute name \"%.*s\"", STR_ARG(node->args[1]));
}

static bool otel_resource_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct otel_main *main = settings;

    if (!check_attribute(scope->conf, node)) {
        return false;
    }

    *vec_add(&main->resource, scope->conf->arena, struct otel_pair) =
        (struct otel_pair){node->args[1], node->args[2]};
    return true;
}

/* off, or the least important level. */
/* clang-format off */
static const struct directive_word level_words[] = {
    {"off", LOG_STDERR},
    {"emerg", LOG_EMERG},
    {"alert", LOG_ALERT},
    {"crit", LOG_CRIT},
    {"error", LOG_ERROR},
    {"warn", LOG_WARN},
    {"notice", LOG_NOTICE},
    {"info", LOG_INFO},
    {"debug", LOG_DEBUG},
    {NULL, 0},
};
/* clang-format on */

static bool otel_error_log_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    if (((struct otel_main *) settings)->error_log != LOG_STDERR) {
        need_exporter(scope->conf, node, OTEL_LOGS);
    }
    return true;
}

static bool otel_metrics_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    struct otel_main *main = settings;
    struct str interval = node->count == 3 ? node->args[2] : STR("interval=60s");
    bool is_on = str_is(node->args[1], "on");

    if (!is_on && !(str_is(node->args[1], "off") && node->count == 2)) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\" in \"%.*s\" directive",
                          STR_ARG(node->args[node->count - 1]), STR_ARG(node->args[0]));
    }
    main->metrics_ms = 0;
    if (!is_on) {
        return true;
    }
    if (!str_starts(interval, STR("interval=")) ||
        !parse_msec(str_skip(interval, 9), &main->metrics_ms) || main->metrics_ms < 100 ||
        main->metrics_ms > METRICS_INTERVAL_MOST_MS) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(interval));
    }
    status_zones_of(scope->conf)->is_wanted = true;
    need_exporter(scope->conf, node, OTEL_METRICS);
    return true;
}

static const struct directive main_rows[] = {
    {"otel_exporter", IN_HTTP, BLOCK(otel_exporter_enter), ARGS(0, 0), .repeat = REPEAT_ERROR,
     .doc = "Defines the OpenTelemetry collector to which spans are sent, and the "
            "parameters of the export."},
    {"otel_service_name", IN_HTTP, STRING(struct otel_main, service_name),
     .initial = OTEL_UNKNOWN_SERVICE, .doc = "Value of the resource attribute service.name."},
    {"otel_resource_attr", IN_HTTP, CUSTOM_FIELD(struct otel_main, resource, otel_resource_apply),
     ARGS(2, 2), .repeat = REPEAT_APPEND, .syntax = "name value",
     .doc = "Additional resource attribute, such as deployment.environment."},
    {"otel_error_log", IN_HTTP, ENUM(struct otel_main, error_log, level_words), .initial = "off",
     .apply = otel_error_log_apply,
     .doc = "Sends error log messages of workers to the collector as log records: those of "
            "this level or a more severe one, if `error_log` writes them to any log."},
    {"otel_metrics", IN_HTTP, CUSTOM_FIELD(struct otel_main, metrics_ms, otel_metrics_apply),
     ARGS(1, 2), .initial = "off", .syntax = "off | on [interval=time]",
     .doc = "Sends the values of `metrics` of all workers to the collector, every minute "
            "or at another interval from 100ms to an hour. It enables counters of requests "
            "by server, zone and peer."},
    {0},
};

static const struct directive_table main_table = {
    .key = &main_key,
    .rows = main_rows,
    .contexts = IN_HTTP,
    .size = sizeof(struct otel_main),
};

/* ---- locations ---- */

/* Parses on, off, or "12.5%", with a precision of a thousandth of a percent. */
static bool read_share(struct str value, uint64_t *share)
{
    uint64_t thousandths;

    if (str_is(value, "on") || str_is(value, "off")) {
        *share = str_is(value, "on") ? OTEL_ALL : 0;
        return true;
    }
    if (!str_ends(value, STR("%")) ||
        !parse_fixed_point(str_head(value, value.len - 1), 3, &thousandths) ||
        thousandths > 100 * 1000) {
        return false;
    }
    *share = OTEL_ALL * thousandths / (100 * 1000);
    return true;
}

static bool otel_trace_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct otel_settings *otel = settings;
    struct otel_reading *reading = reading_of(scope->conf);

    otel->is_variable = !otel->trace->is_constant;
    if (!otel->is_variable && !read_share(otel->trace->constant, &otel->share)) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\" in \"otel_trace\" directive",
                          STR_ARG(otel->trace->constant));
    }
    if (!otel_is_off(otel)) {
        reading->is_wanted = true;
        need_exporter(scope->conf, node, OTEL_TRACES);
    }
    return true;
}

#define ACCESS_TEXT "$remote_addr \"$request\" $status $body_bytes_sent"

static bool otel_access_log_apply(struct conf_scope *scope, const struct directive *row,
                                  struct conf_node *node, void *settings)
{
    struct otel_settings *otel = settings;

    if (otel->access_log->is_constant && str_is(otel->access_log->constant, "off")) {
        otel->access_log = NULL;
        return true;
    }
    if (otel->access_log->is_constant && str_is(otel->access_log->constant, "on")) {
        otel->access_log = template_compile(scope->conf, node, STR(ACCESS_TEXT));
    }
    reading_of(scope->conf)->is_logged = true;
    need_exporter(scope->conf, node, OTEL_LOGS);
    return otel->access_log != NULL;
}

static const struct directive_word context_words[] = {{"ignore", OTEL_IGNORE},
                                                      {"extract", OTEL_EXTRACT},
                                                      {"inject", OTEL_INJECT},
                                                      {"propagate", OTEL_PROPAGATE},
                                                      {NULL, 0}};

/* Receivers reject a whole message if a name is not UTF-8. */
static bool otel_attribute_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    return check_attribute(scope->conf, node);
}

#define S struct otel_settings
static const struct directive otel_rows[] = {
    {"otel_trace", IN_HTTP_ALL, TEMPLATE(S, trace), .initial = "off", .apply = otel_trace_apply,
     .syntax = "on | off | share% | $variable",
     .doc = "Whether spans of requests are recorded: for all, none, a random percentage, "
            "or those for which a variable is `on` or `1`."},
    {"otel_trace_context", IN_HTTP_ALL, ENUM(S, context, context_words), .initial = "ignore",
     .doc = "Processing of the fields traceparent and tracestate: `extract` continues the "
            "trace that they identify, `inject` sends the span of the request to backends, "
            "`propagate` does both."},
    {"otel_span_name", IN_HTTP_ALL, TEMPLATE(S, span_name),
     .doc = "Name of the span; by default, the name of the location."},
    {"otel_upstream_spans", IN_HTTP_ALL, FLAG(S, has_upstream_spans), .initial = "off",
     .doc = "Whether each attempt to send a request to a backend has its own span, a child "
            "of the request's span."},
    {"otel_internal_spans", IN_HTTP_ALL, FLAG(S, has_internal_spans), .initial = "off",
     .doc = "Whether phases of a request have their own spans below the request's span: "
            "cache lookups, subrequests, content, access checks that decide, and other "
            "handlers (scripts, delays) that take at least a millisecond. A request has at "
            "most 64 of them."},
    {"otel_access_log", IN_HTTP_ALL, TEMPLATE(S, access_log), .initial = "off",
     .apply = otel_access_log_apply, .syntax = "off | on | text",
     .doc = "Sends a log record of each request to the collector, with the attributes of "
            "its span and, if it has one, its trace. With `on`, the text is `$remote_addr "
            "\"$request\" $status $body_bytes_sent`. If the text has variables and is "
            "empty for a request, no record is sent."},
    {"otel_span_attr", IN_HTTP_ALL, KEY_TEMPLATE(S, attributes), ARGS(2, 2),
     .repeat = REPEAT_APPEND, .apply = otel_attribute_apply,
     .doc = "Additional attribute of the span. Directives of outer blocks are inherited if "
            "a block has none."},
    {0},
};
#undef S

static const struct directive_table otel_table = {
    .key = &otel_key,
    .rows = otel_rows,
    .contexts = IN_HTTP_LOCATION_SETTINGS,
    .size = sizeof(struct otel_settings),
};
static const struct directive_table *const otel_tables[] = {&main_table, &otel_exporter_table,
                                                            &otel_table, NULL};

/* ---- hooks ---- */

static enum handler_result otel_access(struct request *request)
{
    const struct otel_settings *settings = otel_settings_at(request->location);

    if (request == request->main) {
        struct str text = template_text(settings->access_log, &request->env);

        if (text.len != 0) {
            otel_log_request(request, text);
        }
    }
    return HANDLER_NEXT;
}

static bool records_here(const struct http_location *location)
{
    return otel_has_record(otel_settings_at(location));
}

/* Do all locations record the same requests, whatever their contents, without parts and without
 * using trace fields? Then the decision can be made when a request is logged, and a request that is
 * not recorded costs one check. (Fields must be read earlier, before scripts change them.) */
static bool is_uniform(const struct http_main *main)
{
    const struct otel_settings *first = NULL;

    vec_each(struct http_location *, location, &main->locations) {
        const struct otel_settings *settings = otel_settings_at(*location);

        first = first == NULL ? settings : first;
        if (settings->is_variable || settings->has_internal_spans ||
            settings->share != first->share || settings->context != OTEL_IGNORE) {
            return false;
        }
    }
    reading_of(&main->generation->conf)->share = first == NULL ? 0 : first->share;
    return true;
}

/* Called for each location when hooks are linked, which is before otel_end. */
static bool records_uniformly(const struct http_main *main)
{
    struct otel_reading *reading = reading_of(&main->generation->conf);

    if (!reading->is_judged) {
        reading->is_judged = true;
        reading->is_uniform = is_uniform(main);
    }
    return reading->is_uniform;
}

static bool enters_here(const struct http_location *location)
{
    const struct otel_settings *settings = otel_settings_at(location);

    if (otel_is_off(settings) && (settings->context & OTEL_INJECT) == 0) {
        return false;
    }
    return location->server == NULL || !records_uniformly(location->server->main);
}

static bool is_wanted_at(const struct http_location *location)
{
    return location->server != NULL &&
           reading_of(&location->server->main->generation->conf)->is_wanted;
}

/* A request may have been redirected to a location that does not record. */
static bool logs_here(const struct http_location *location)
{
    return is_wanted_at(location) && !records_uniformly(location->server->main);
}

static bool logs_share_here(const struct http_location *location)
{
    return is_wanted_at(location) && records_uniformly(location->server->main);
}

/* Gives each location settings of its own, since those without a row share their parent's. */
static void lay_out_spans(struct http_main *main, struct arena *arena)
{
    vec_each(struct http_location *, at, &main->locations) {
        struct http_location *location = *at;
        struct otel_settings *settings = arena_new(arena, struct otel_settings);

        *settings = *otel_settings_at(location);
        location->settings[otel_key.number] = settings;
        otel_lay_out_span(settings, arena, location->name);
    }
}

static bool otel_end(struct conf *conf, struct http_main *main)
{
    struct otel_reading *reading = reading_of(conf);

    if (main->servers.count == 0) {
        return true;
    }
    reading->main = server_settings(*vec_at(&main->servers, struct http_server *, 0), &main_key);
    if (reading->is_wanted) {
        lay_out_spans(main, conf->arena);
    }
    if (reading->sender == NULL) {
        return true;
    }
    if (reading->main->exporter == NULL) {
        return conf_error(conf, reading->sender, "\"otel_exporter\" block is missing");
    }
    return reading->by_path == NULL || reading->main->exporter->paths[OTEL_LOGS].len != 0 ||
           conf_error(
               conf, reading->by_path,
               "\"%.*s\" needs an \"endpoint\" without a path, or with one that ends with /v1/traces",
               STR_ARG(reading->by_path->args[0]));
}

static bool worker_start(struct generation *generation)
{
    const struct otel_reading *reading = reading_of(&generation->conf);
    const struct otel_main *main = reading->main;

    otel_contexts_start(reading->share);
    if (main == NULL || main->exporter == NULL) {
        return true;
    }
    bool has_error_log = main->error_log != LOG_STDERR;
    bool has_metrics = main->metrics_ms != 0 && worker_slot == 0 && worker_role == WORKER_SERVES;
    if ((reading->is_wanted && !otel_exporter_start(generation, main, OTEL_TRACES)) ||
        ((has_error_log || reading->is_logged) &&
         !otel_exporter_start(generation, main, OTEL_LOGS)) ||
        (has_error_log && !otel_error_log_start(generation, main)) ||
        (has_metrics && !otel_exporter_start(generation, main, OTEL_METRICS))) {
        return false;
    }
    if (has_metrics) {
        otel_metrics_start(generation, main);
    }
    return true;
}

/* Sends everything that remains. */
static void worker_quit(struct generation *generation)
{
    otel_error_log_drain(generation);
    otel_metrics_stop(generation, !worker_is_replaced);
    otel_exporter_quit(generation);
}

static void worker_end(struct generation *generation)
{
    otel_error_log_end(generation);
    otel_metrics_stop(generation, false);
    otel_exporter_end(generation);
}

/* ---- variables ---- */

static bool give_hex(struct variable_env *env, const unsigned char *id, size_t size,
                     struct str *out)
{
    char *text = arena_text(env->arena, 2 * size);

    *out = str_from(text, hex_encode(text, id, size));
    return true;
}

static bool get_trace_id(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return give_hex(env, otel_context_of(variable_request(env))->own.trace_id, TRACE_ID_SIZE, out);
}

static bool get_span_id(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return give_hex(env, otel_context_of(variable_request(env))->own.span_id, SPAN_ID_SIZE, out);
}

static bool get_parent_id(struct variable_env *env, const struct variable *variable,
                          struct str *out)
{
    const struct otel_context *context = otel_context_of(variable_request(env));

    return context->has_parent && give_hex(env, context->parent_id, SPAN_ID_SIZE, out);
}

static bool get_parent_sampled(struct variable_env *env, const struct variable *variable,
                               struct str *out)
{
    return variable_give(out, otel_context_of(variable_request(env))->is_parent_sampled ? STR("1")
                                                                                        : STR("0"));
}

static const struct variable otel_variables[] = {
    {.name = STR_INIT("otel_trace_id"),
     .doc = "ID of the trace to which the request belongs, 32 hexadecimal digits.",
     .get = get_trace_id,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("otel_span_id"),
     .doc = "ID of the request's span, 16 hexadecimal digits.",
     .get = get_span_id,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("otel_parent_id"),
     .doc = "ID of the parent span that the client sent, if `otel_trace_context` extracts "
            "it.",
     .get = get_parent_id,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("otel_parent_sampled"),
     .doc = "1 if the client reported that it records its span, otherwise 0.",
     .get = get_parent_sampled,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

static const struct phase_hook otel_phases[] = {
    {.phase = PHASE_REWRITE,
     .name = "otel",
     .before = "rewrite",
     .run = otel_enter_location,
     .is_active = enters_here},
    {.phase = PHASE_LOG, .name = "otel", .after = "log", .run = otel_log, .is_active = logs_here},
    {.phase = PHASE_LOG,
     .name = "otel share",
     .after = "otel",
     .run = otel_log_share,
     .is_active = logs_share_here},
    {.phase = PHASE_LOG,
     .name = "otel access",
     .after = "otel share",
     .run = otel_access,
     .is_active = records_here},
    {.run = NULL},
};
static const struct http_module otel_hooks = {
    .variables = otel_variables,
    .phases = otel_phases,
    .end = otel_end,
};

const struct module ngx_otel_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_otel_module",
    .kind = MODULE_HTTP,
    .tables = otel_tables,
    .hooks = &otel_hooks,
    .worker_start = worker_start,
    .worker_quit = worker_quit,
    .worker_abort = otel_exporter_abort,
    .worker_end = worker_end,
};
