/* ngx_http_metrics_module: metrics of the service for Prometheus, and a dashboard. */
#include "http/modules/status/metrics/metrics.h"

#include "base/parse.h"
#include "base/text.h"
#include "http/exchange/exchange.h"
#include "http/message/accept.h"
#include "shared/metrics/history.h"
#include "shared/metrics/zones.h"
#include "shared/metrics/writer.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/generation.h"
#include "server/module.h"

struct metrics_main {
    uint64_t zone_size;
    uint64_t history_ms; /* of dashboard_history */
};

/* State of one configuration. */
struct dashboards {
    bool is_wanted;    /* there is a dashboard: history is recorded */
    struct zone *zone; /* for the history; NULL: not recorded */
    uint64_t step_ms;  /* interval of its points */
};

/* Settings of a location with `dashboard`. */
struct dashboard_settings {
    struct str api; /* URI of a location with `api`; empty: none */
};

struct metrics_server {
    unsigned series; /* of the server */
};

struct metrics_settings {
    struct str zone;   /* status_zone; empty = none */
    bool is_of_server; /* status_zone is set for the whole server */
    unsigned series;   /* of a status_zone for locations */
};

struct status_settings {
    struct template *callback; /* for `status_format jsonp`; NULL: JSON */
};

static struct settings_key main_key;
static struct settings_key server_key;
static struct settings_key location_key;
static struct settings_key status_key;

static const struct generation
    *counting; /* the generation whose requests this worker counts; or NULL */

/* ---- counting ---- */

/* A separate function, so that requests without a backend do not need its stack frame. */
__attribute__((noinline)) static void count_attempts(const struct exchange *x)
{
    vec_each(const struct attempt, attempt, &x->attempts) {
        struct metrics_sample sample = {
            .status = attempt->status,
            .time_ms = attempt->response_ms == UINT64_MAX ? 0 : attempt->response_ms,
            .received = attempt->bytes_received,
            .sent = attempt->bytes_sent,
            .has_begun = true,
        };
        if (attempt->series != 0) {
            metrics_count(attempt->series - 1, &sample);
        }
    }
}

/* A request is in progress, in the counters of its server, from the end of its header until it
 * ends. */
static enum handler_result count_begin(struct request *request)
{
    if (counting != NULL && request == request->main && !request->is_counted) {
        const struct metrics_server *server = server_settings(request->server, &server_key);

        request->is_counted = true;
        metrics_begin(server->series);
    }
    return HANDLER_NEXT;
}

static enum handler_result count_request(struct request *request)
{
    if (counting == NULL || request != request->main) {
        return HANDLER_NEXT;
    }
    const struct metrics_settings *settings = location_settings(request->location, &location_key);
    const struct metrics_server *server = server_settings(request->server, &server_key);
    struct metrics_sample sample = {
        .status = request->response.status,
        .time_ms = request_age_ms(request),
        .received = request->head_size + request->incoming.received + request->tunnel_received,
        .sent = request_bytes_sent(request),
        .has_begun = request->is_counted,
    };
    metrics_count(server->series, &sample);
    sample.has_begun = false;
    if (settings->zone.len != 0 && !settings->is_of_server) {
        metrics_count(settings->series, &sample);
    }
    if (request->exchange != NULL) {
        count_attempts(request->exchange);
    }
    return HANDLER_NEXT;
}

/* ---- output ---- */

static struct dashboards *dashboards_of(struct conf *conf)
{
    return conf_state(conf, "dashboards", sizeof(struct dashboards));
}

/* Responds with points of the history, all or those after a number, and further data for the
 * page. */
static enum handler_result answer_history(struct request *request, struct str after)
{
    const struct dashboard_settings *settings = request->answering->content.settings;
    const struct dashboards *dashboards = dashboards_of(&generation_now->conf);
    struct buf out = {0};
    struct json json = {.out = &out, .arena = &request->arena};
    uint64_t number = 0;

    if (after.len != 0 && !parse_uint(after, &number)) {
        return request_fail(request, 400);
    }
    json_open(&json, STR_NONE, '{');
    json_put_string(&json, "api", settings == NULL ? STR("") : settings->api);
    json_put_number(&json, "step_ms", dashboards->step_ms);
    if (dashboards->zone != NULL) {
        history_look(dashboards->step_ms);
        history_put(&json, number);
    }
    json_close(&json, '}');
    return response_gathered(request, 200, STR("application/json"), &out);
}

static enum handler_result answer_page(struct request *request)
{
    struct fields *fields = &request->response.fields;

    fields_add(fields, &request->arena, STR("Content-Security-Policy"), metrics_page_policy());
    fields_add(fields, &request->arena, STR("X-Frame-Options"), STR("DENY"));
    fields_add(fields, &request->arena, STR("Referrer-Policy"), STR("no-referrer"));
    return response_memory(request, 200, STR("text/html; charset=utf-8"), metrics_page());
}

enum shown_as { AS_TEXT, AS_OPENMETRICS, AS_PROTOBUF, AS_PAGE, AS_JSON, SHOWN_AS };

/* If a client accepts several equally, it gets the first of them. */
static const struct str shown_types[SHOWN_AS] = {
    STR_INIT("text/plain; version=0.0.4; charset=utf-8"),
    STR_INIT("application/openmetrics-text; version=1.0.0; charset=utf-8"),
    STR_INIT("application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
             "encoding=delimited"),
    STR_INIT("text/html; charset=utf-8"),
    STR_INIT("application/json"),
};

static const struct metrics_form *const shown_forms[SHOWN_AS] = {&metrics_text,
                                                                 &metrics_openmetrics,
                                                                 &metrics_protobuf};

static enum handler_result metrics_answer(struct request *request)
{
    struct str accept = STR_NONE, after;
    struct buf out = {0};

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    fields_by_variable_name(&request->headers, &request->arena, STR("accept"), &accept);
    unsigned as = accept_choose(accept, shown_types, SHOWN_AS);
    if (as == SHOWN_AS) {
        as = AS_TEXT; /* nothing in Accept is known: all scrapers can read text */
    }
    fields_add(&request->response.fields, &request->arena, STR("Cache-Control"), STR("no-store"));
    fields_add(&request->response.fields, &request->arena, STR("X-Content-Type-Options"),
               STR("nosniff"));
    if (request_argument(request, STR("history"), &after)) {
        return answer_history(request, after);
    }
    fields_add(&request->response.fields, &request->arena, STR("Vary"), STR("Accept"))->is_list =
        true;
    if (as == AS_PAGE) {
        return answer_page(request);
    }
    if (as == AS_JSON) {
        metrics_write_status(&out, request);
    } else {
        metrics_write(&out, &request->arena, &request->server->main->generation->conf,
                      shown_forms[as]);
    }
    return response_gathered(request, 200, shown_types[as], &out);
}

/* The same as JSON, or as a function call with JSON. */
static enum handler_result status_answer(struct request *request)
{
    const struct status_settings *settings = location_settings(request->location, &status_key);
    struct buf out = {0};

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    fields_add(&request->response.fields, &request->arena, STR("Cache-Control"), STR("no-store"));
    if (settings->callback == NULL) {
        metrics_write_status(&out, request);
        return response_gathered(request, 200, STR("application/json"), &out);
    }
    struct str callback = template_text(settings->callback, &request->env);
    if (!text_is_function_name(callback)) {
        return request_fail(request, 400);
    }
    buf_append(&out, callback);
    buf_append_char(&out, '(');
    metrics_write_status(&out, request);
    buf_append(&out, STR(");"));
    return response_gathered(request, 200, STR("application/javascript"), &out);
}

/* ---- when the configuration is read ---- */

static const char zone_user, history_user; /* their addresses identify the owners of zones */

/* Gives each server a number of its own. */
static void fresh_server(void *settings)
{
    ((struct metrics_server *) settings)->series = SERIES_NONE;
}

static bool metrics_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    status_zones_of(scope->conf)->is_wanted = true;
    content_set(scope_location(scope), metrics_answer, NULL);
    return true;
}

static bool dashboard_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *none)
{
    struct dashboard_settings *settings = arena_new(scope->conf->arena, struct dashboard_settings);

    if (node->count == 2) {
        settings->api = node->args[1];
        if (!str_starts(settings->api, STR("api=/"))) {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"",
                              STR_ARG(node->args[1]));
        }
        settings->api = str_skip(settings->api, 4);
    }
    dashboards_of(scope->conf)->is_wanted = true;
    status_zones_of(scope->conf)->is_wanted = true;
    content_set(scope_location(scope), metrics_answer, settings);
    return true;
}

static bool status_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    status_zones_of(scope->conf)->is_wanted = true;
    content_set(scope_location(scope), status_answer, NULL);
    return true;
}

static bool status_format_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct status_settings *status = settings;
    bool is_jsonp = str_is(node->args[1], "jsonp");

    if (!is_jsonp && !(str_is(node->args[1], "json") && node->count == 2)) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\" in \"%.*s\" directive",
                          STR_ARG(node->args[node->count - 1]), STR_ARG(node->args[0]));
    }
    if (is_jsonp) {
        status->callback =
            template_compile(scope->conf, node,
                             node->count > 2 ? node->args[2] : STR("ngx_status_jsonp_callback"));
        return status->callback != NULL;
    }
    status->callback = NULL;
    return true;
}

static bool status_zone_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct metrics_settings *metrics = settings;

    metrics->is_of_server = scope->context == IN_SERVER;
    if (metrics->zone.len == 0) {
        return conf_error(scope->conf, node, "invalid zone name \"\"");
    }
    status_zone_add(scope->conf, metrics->is_of_server ? SERIES_SERVER : SERIES_ZONE,
                    metrics->zone);
    return true;
}

static void name_series(struct http_main *main)
{
    vec_each(struct http_server *, at, &main->servers) {
        struct metrics_server *server = server_settings(*at, &server_key);
        const struct metrics_settings *root = location_settings((*at)->root, &location_key);
        struct str name = root->zone.len != 0 ? root->zone : (*at)->name;

        server->series = metrics_series(SERIES_SERVER, name.len == 0 ? STR("_") : name);
    }
    vec_each(struct http_location *, at, &main->locations) {
        struct metrics_settings *settings = location_settings(*at, &location_key);

        if (settings->zone.len != 0 && !settings->is_of_server) {
            settings->series = metrics_series(SERIES_ZONE, settings->zone);
        }
    }
}

/* The settings of the http block; NULL if it has no server. */
static struct metrics_main *main_of(const struct http_main *main)
{
    return main == NULL || main->servers.count == 0
               ? NULL
               : server_settings(*vec_at(&main->servers, struct http_server *, 0), &main_key);
}

static bool prepare_history(struct conf *conf, const struct metrics_main *settings)
{
    struct dashboards *dashboards = dashboards_of(conf);

    if (!dashboards->is_wanted) {
        return true;
    }
    dashboards->step_ms = settings->history_ms / HISTORY_POINTS;
    dashboards->zone = generation_zone(conf->generation, NULL, STR("dashboard"),
                                       history_zone_size(), &history_user);
    return dashboards->zone != NULL &&
           (history_use(dashboards->zone) ||
            conf_error(conf, NULL, "there is no memory for the points of \"dashboard\""));
}

static bool metrics_end(struct conf *conf, struct http_main *main)
{
    struct metrics_main *settings = main_of(main);
    struct status_zones *zones = status_zones_of(conf);

    if (settings == NULL || !zones->is_wanted) {
        return true;
    }
    zones->write = metrics_write;
    zones->zone = generation_zone(conf->generation, NULL, STR("metrics"),
                                  (size_t) settings->zone_size, &zone_user);
    if (zones->zone == NULL) {
        return false;
    }
    if (!metrics_use(zones->zone)) {
        return conf_error(conf, NULL, "\"metrics_zone_size\" is too small");
    }
    name_series(main);
    if (metrics_lost() != 0) {
        conf_warn(conf, NULL, "metrics: there are more than %u servers, zones and peers",
                  SERIES_MOST);
    }
    return prepare_history(conf, settings);
}

static bool worker_start(struct generation *generation)
{
    const struct dashboards *dashboards = dashboards_of(&generation->conf);

    counting = status_zones_start(&generation->conf) ? generation : NULL;
    history_stop(); /* without a master: that of the former generation, which may have had a
                       dashboard */
    if (counting != NULL && dashboards->zone != NULL && history_use(dashboards->zone) &&
        worker_slot == 0 && worker_role == WORKER_SERVES) {
        history_start(dashboards->step_ms); /* one worker records it for all */
    }
    return true;
}

static void worker_quit(struct generation *generation)
{
    if (counting == generation) {
        history_stop();
    }
}

static void worker_end(struct generation *generation)
{
    if (counting == generation) { /* without a master the next generation may already be counting */
        metrics_worker_end();
        counting = NULL;
    }
}

static const struct directive main_rows[] = {
    {"metrics_zone_size", IN_HTTP, SIZE(struct metrics_main, zone_size), .initial = "8m",
     .min = 1 << 20, .max = (int64_t) 1 << 40,
     .doc = "Size of the shared memory for counters: 28k for each worker and 16 servers, "
            "zones or peers. The counters are kept over reloads unless the size changes."},
    {"dashboard_history", IN_HTTP, MSEC(struct metrics_main, history_ms), .initial = "1h",
     .min = 60000, .max = 7 * 24 * 3600 * 1000LL,
     .doc = "Time that the plots of `dashboard` cover. They have 120 points; with the "
            "default, a point is recorded every 30 seconds. While the server is idle, one "
            "worker wakes up for it every two minutes."},
    {0},
};
static const struct directive location_rows[] = {
    {"metrics", IN_LOCATION, CUSTOM(metrics_apply), ARGS(0, 0), .inherit = INHERIT_NEVER,
     .doc = "Responds with the metrics of the server in OpenMetrics format, in the text or "
            "protobuf format of Prometheus, or as an HTML page, depending on the field "
            "Accept. It enables counters of requests by server, zone and peer."},
    {"dashboard", IN_LOCATION, CUSTOM(dashboard_apply), ARGS(0, 1), .inherit = INHERIT_NEVER,
     .syntax = "[api=uri]",
     .doc = "Responds to browsers with a page that shows traffic, latency and errors of "
            "the last hour, and the current state of upstreams, caches, limits, TLS and "
            "workers; other clients get the same as from `metrics`. With `api`, servers of "
            "upstreams can be drained and taken down on the page: the URI is that of a "
            "location with `api write=on` at the same address, which controls access."},
    {"status_zone", IN_SERVER | IN_LOCATION | IN_LOCATION_IF, STRING(struct metrics_settings, zone),
     .apply = status_zone_apply, .syntax = "zone",
     .doc = "Counts the requests of these servers and locations together, for `metrics`. "
            "In a server, it sets the name in the metrics; by default, the first "
            "server_name."},
    {0},
};

static const struct directive status_rows[] = {
    {"status", IN_LOCATION, CUSTOM(status_apply), ARGS(0, 0), .inherit = INHERIT_NEVER,
     .doc = "Responds with the metrics as a JSON document in the format of nginx Plus' "
            "former module of this name: connections, requests, zones, groups, caches. "
            "Values that are not counted are omitted."},
    {"status_format", IN_HTTP_ALL,
     CUSTOM_FIELD(struct status_settings, callback, status_format_apply), ARGS(1, 2),
     .initial = "json", .syntax = "json | jsonp [callback]",
     .doc = "Whether `status` responds with JSON or JSONP. The name of the JSONP function "
            "may contain variables."},
    {0},
};

static const struct directive_table main_table = {.key = &main_key,
                                                  .rows = main_rows,
                                                  .contexts = IN_HTTP,
                                                  .size = sizeof(struct metrics_main)};
static const struct directive_table server_table = {.key = &server_key,
                                                    .contexts = IN_HTTP | IN_SERVER,
                                                    .size = sizeof(struct metrics_server),
                                                    .fresh = fresh_server};
static const struct directive_table location_table = {.key = &location_key,
                                                      .rows = location_rows,
                                                      .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                      .size = sizeof(struct metrics_settings)};
static const struct directive_table status_table = {.key = &status_key,
                                                    .rows = status_rows,
                                                    .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                    .size = sizeof(struct status_settings),
                                                    .module_name = "ngx_http_status_module"};
static const struct directive_table *const tables[] = {&main_table, &server_table, &location_table,
                                                       &status_table, NULL};

static bool metrics_is_active(const struct http_location *location)
{
    return location->server != NULL &&
           status_zones_of(&location->server->main->generation->conf)->is_wanted;
}

static const struct phase_hook phases[] = {
    {.phase = PHASE_POST_READ,
     .name = "metrics",
     .after = "realip",
     .run = count_begin,
     .is_active = metrics_is_active},
    {.phase = PHASE_LOG,
     .name = "metrics",
     .after = "log",
     .run = count_request,
     .is_active = metrics_is_active},
    {.run = NULL},
};
static const struct http_module hooks = {.phases = phases, .end = metrics_end};

const struct module ngx_http_metrics_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_metrics_module",
    .kind = MODULE_HTTP,
    .tables = tables,
    .hooks = &hooks,
    .worker_start = worker_start,
    .worker_quit = worker_quit,
    .worker_end = worker_end,
};
