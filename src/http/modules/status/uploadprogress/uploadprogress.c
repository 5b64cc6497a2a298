/* ngx_http_uploadprogress_module: reports the progress of uploads to clients, by an identifier that
 * the client has chosen. */
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/modules/status/uploadprogress/uploads.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/generation.h"
#include "server/module.h"

#define ZONE_LEAST (8 * 4096)

enum upload_state { STATE_STARTING, STATE_UPLOADING, STATE_DONE, STATE_ERROR, STATES };

struct progress_settings {
    struct limit_zone *tracked;  /* uploads in this location are tracked there; or NULL */
    uint64_t timeout_ms;         /* how long uploads are kept after their end */
    struct limit_zone *reported; /* from report_uploads */
    struct str header;           /* name of the field, or argument, with the identifier */
    struct str callback;         /* name of the argument with the JSONP callback */
    struct str content_type;     /* of reports */
    struct template *templates[STATES];
};

/* Data of a request that is an upload or a report. */
struct tracking {
    struct body_watcher watcher;
    struct request *request;
    struct shm_table *table;
    struct upload *upload; /* the tracked upload */
    uint64_t timeout_ms;
    bool is_report;
    struct upload reported; /* a copy of the reported one */
    enum upload_state state;
};

static struct settings_key progress_key;
static const struct limit_kind upload_zones = UPLOAD_ZONES;

static const struct str state_names[STATES] = {STR_INIT("starting"), STR_INIT("uploading"),
                                               STR_INIT("done"), STR_INIT("error")};

/* Templates of the three formats, by state. */
/* clang-format off */
#define RECEIVED "$uploadprogress_received"
#define LENGTH "$uploadprogress_length"
#define STATUS "$uploadprogress_status"
static const struct str java_texts[STATES] = {
    STR_INIT("new Object({ 'state' : 'starting' })\r\n"),
    STR_INIT("new Object({ 'state' : 'uploading', 'received' : " RECEIVED ", 'size' : " LENGTH " })\r\n"),
    STR_INIT("new Object({ 'state' : 'done' })\r\n"),
    STR_INIT("new Object({ 'state' : 'error', 'status' : " STATUS " })\r\n"),
};
static const struct str json_texts[STATES] = {
    STR_INIT("{ \"state\" : \"starting\" }\r\n"),
    STR_INIT("{ \"state\" : \"uploading\", \"received\" : " RECEIVED ", \"size\" : " LENGTH " }\r\n"),
    STR_INIT("{ \"state\" : \"done\" }\r\n"),
    STR_INIT("{ \"state\" : \"error\", \"status\" : " STATUS " }\r\n"),
};
static const struct str jsonp_texts[STATES] = {
    STR_INIT("$uploadprogress_callback({ \"state\" : \"starting\" });\r\n"),
    STR_INIT("$uploadprogress_callback({ \"state\" : \"uploading\", \"received\" : " RECEIVED ", \"size\" : " LENGTH " });\r\n"),
    STR_INIT("$uploadprogress_callback({ \"state\" : \"done\" });\r\n"),
    STR_INIT("$uploadprogress_callback({ \"state\" : \"error\", \"status\" : " STATUS " });\r\n"),
};
/* clang-format on */

TYPED_SETTINGS(uploadprogress_settings_at, struct progress_settings, progress_key,
               struct http_location)

/* The identifier in a field, else in an argument, unmodified. */
static bool upload_name(const struct request *request, struct str *out)
{
    struct str wanted = uploadprogress_settings_at(request->location)->header;
    const struct field *field = fields_find(&request->headers, wanted);

    if (field != NULL) {
        *out = field->value;
        return out->len != 0;
    }
    return request_argument(request, wanted, out) && out->len != 0;
}

/* ---- uploads ---- */

static void piece_came(struct body_watcher *watcher, size_t size)
{
    upload_received(container_of(watcher, struct tracking, watcher)->upload, size);
}

/* The request ends, with or without a response. One without a response was aborted: 400, as in
 * nginx's module. */
static void request_gone(void *arg)
{
    const struct tracking *tracking = arg;
    unsigned status = request_status(tracking->request);

    upload_end(tracking->table, tracking->upload, status == 0 ? 400 : status,
               clock_now.now_ms + tracking->timeout_ms);
}

/* Is it an upload that is not tracked yet? */
static bool is_new_upload(struct request *request, struct str *name)
{
    return request == request->main && request->method == METHOD_POST &&
           request_data(request, &progress_key, 0) == NULL && upload_name(request, name);
}

static enum handler_result track(struct request *request)
{
    const struct progress_settings *settings = uploadprogress_settings_at(request->location);
    struct str name;

    if (!is_new_upload(request, &name)) {
        return HANDLER_NEXT;
    }
    struct tracking *tracking = request_data(request, &progress_key, sizeof(*tracking));
    tracking->table = settings->tracked->table;
    switch (upload_begin(tracking->table, name, request->incoming.length, &tracking->upload)) {
    case UPLOAD_BEGUN:
        break;
    case UPLOAD_RUNS:
        log_info(&request->log, 0, "upload_progress: tracking already registered id: %.*s",
                 STR_ARG(name));
        return request_fail(request, 500);
    case UPLOAD_FULL:
        counters_mine->limited++;
        log_warn(&request->log, 0, "upload_progress \"%.*s\" is full: an upload is not tracked",
                 STR_ARG(settings->tracked->zone->name));
        return HANDLER_NEXT;
    }
    tracking->request = request;
    tracking->timeout_ms = settings->timeout_ms;
    tracking->watcher.received = piece_came;
    request->incoming.watcher = &tracking->watcher;
    arena_on_free(&request->arena, request_gone, tracking);
    return HANDLER_NEXT;
}

/* An upload that was refused before it was tracked, usually because it is too large. */
static enum handler_result note_refusal(struct request *request)
{
    const struct progress_settings *settings = uploadprogress_settings_at(request->location);
    struct upload *upload;
    struct str name;

    if (request_status(request) >= 400 && is_new_upload(request, &name) &&
        upload_begin(settings->tracked->table, name, request->incoming.length, &upload) ==
            UPLOAD_BEGUN) {
        upload_end(settings->tracked->table, upload, request_status(request),
                   clock_now.now_ms + settings->timeout_ms);
    }
    return HANDLER_NEXT;
}

/* ---- reports ---- */

static enum upload_state uploadprogress_state_of(bool is_there, const struct upload *upload)
{
    if (!is_there) {
        return STATE_STARTING;
    }
    if (!upload->has_ended) {
        return STATE_UPLOADING;
    }
    return upload->status < 400 ? STATE_DONE : STATE_ERROR;
}

static void forbid_caching(struct request *request)
{
    struct fields *fields = &request->response.fields;

    fields_add_known(fields, &request->arena, FIELD_EXPIRES, STR("Thu, 01 Jan 1970 00:00:01 GMT"));
    fields_add_known(fields, &request->arena, FIELD_CACHE_CONTROL, STR("no-cache"));
}

/* A request without an identifier is handled as if this module were off. */
static enum handler_result report(struct request *request)
{
    const struct progress_settings *settings = uploadprogress_settings_at(request->location);
    struct str name;

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    if (!upload_name(request, &name)) {
        return HANDLER_NEXT;
    }
    struct tracking *tracking = request_data(request, &progress_key, sizeof(*tracking));
    bool is_there = upload_find(settings->reported->table, name, &tracking->reported);
    tracking->state = uploadprogress_state_of(is_there, &tracking->reported);
    tracking->is_report = true;
    forbid_caching(request);
    return response_memory(request, 200, settings->content_type,
                           template_text(settings->templates[tracking->state], &request->env));
}

/* ---- variables of a report ---- */

static const struct tracking *report_of(struct variable_env *env)
{
    const struct tracking *tracking = request_data(variable_request(env), &progress_key, 0);

    return tracking != NULL && tracking->is_report ? tracking : NULL;
}

static bool get_received(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct tracking *tracking = report_of(env);

    return tracking != NULL && variable_give_number(env, out, tracking->reported.received);
}

static bool get_length(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct tracking *tracking = report_of(env);

    if (tracking == NULL) {
        return false;
    }
    return tracking->reported.length < 0
               ? variable_give(out, STR("-1"))
               : variable_give_number(env, out, (uint64_t) tracking->reported.length);
}

static bool uploadprogress_get_status(struct variable_env *env, const struct variable *variable,
                                      struct str *out)
{
    const struct tracking *tracking = report_of(env);

    return tracking != NULL && variable_give_number(env, out, tracking->reported.status);
}

static bool get_callback(struct variable_env *env, const struct variable *variable, struct str *out)
{
    struct request *request = variable_request(env);

    return request_argument(request, uploadprogress_settings_at(request->location)->callback,
                            out) &&
           text_is_function_name(*out);
}

static const struct variable progress_variables[] = {
    {.name = STR_INIT("uploadprogress_received"),
     .doc = "Number of bytes of the upload that have been received.",
     .get = get_received,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("uploadprogress_length"),
     .doc = "Total length of the upload.",
     .get = get_length,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("uploadprogress_status"),
     .doc = "State of the upload: starting, uploading, error or done.",
     .get = uploadprogress_get_status,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("uploadprogress_callback"),
     .doc = "Name of the JSONP function.",
     .get = get_callback,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

/* ---- directives ---- */

static bool uploadprogress_zone_apply(struct conf_scope *scope, const struct directive *row,
                                      struct conf_node *node, void *settings)
{
    struct limit_zone_words words = {.name = node->args[1]};

    if (!parse_size(node->args[2], &words.size)) {
        return conf_error(scope->conf, node, "invalid size of track_uploads \"%.*s\"",
                          STR_ARG(node->args[2]));
    }
    for (const struct limit_zone *zone = limit_zones_of(scope->conf, &upload_zones); zone != NULL;
         zone = zone->next) {
        if (zone->table != NULL && str_equal(zone->zone->name, words.name)) {
            return conf_error(scope->conf, node, "track_uploads \"%.*s\" is already created",
                              STR_ARG(words.name));
        }
    }
    if (words.size < ZONE_LEAST) {
        return conf_error(scope->conf, node, "track_uploads \"%.*s\" is too small",
                          STR_ARG(words.name));
    }
    return limit_zone_declare(scope->conf, node, &upload_zones, &words) != NULL;
}

static bool track_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct progress_settings *progress = settings;
    uint64_t seconds;

    if (!parse_sec(node->args[2], &seconds)) {
        return conf_error(scope->conf, node, "track_uploads \"%.*s\" timeout value invalid",
                          STR_ARG(node->args[1]));
    }
    progress->timeout_ms = seconds * 1000;
    progress->tracked = limit_zone_named(scope->conf, node, &upload_zones, node->args[1]);
    return progress->tracked != NULL;
}

static bool report_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct progress_settings *progress = settings;

    progress->reported = limit_zone_named(scope->conf, node, &upload_zones, node->args[1]);
    content_set(scope_location(scope), report, NULL);
    return progress->reported != NULL;
}

static bool set_form(struct conf_scope *scope, const struct conf_node *node,
                     struct progress_settings *progress, const struct str *texts)
{
    for (unsigned i = 0; i < STATES; i++) {
        progress->templates[i] = template_compile(scope->conf, node, texts[i]);
        if (progress->templates[i] == NULL) {
            return false;
        }
    }
    return true;
}

static bool java_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct progress_settings *progress = settings;

    progress->content_type = STR("text/javascript");
    return set_form(scope, node, progress, java_texts);
}

static bool json_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct progress_settings *progress = settings;

    progress->content_type = STR("application/json");
    return set_form(scope, node, progress, json_texts);
}

static bool jsonp_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct progress_settings *progress = settings;

    progress->content_type = STR("application/javascript");
    return set_form(scope, node, progress, jsonp_texts);
}

static bool template_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    struct progress_settings *progress = settings;

    for (unsigned i = 0; i < STATES; i++) {
        if (str_equal(node->args[1], state_names[i])) {
            progress->templates[i] = template_compile(scope->conf, node, node->args[2]);
            return progress->templates[i] != NULL;
        }
    }
    return conf_error(scope->conf, node, "unknown state \"%.*s\"", STR_ARG(node->args[1]));
}

/* The default format is JSONP. */
static bool progress_finish(struct conf_scope *scope, void *settings)
{
    struct progress_settings *progress = settings;

    for (unsigned i = 0; i < STATES; i++) {
        if (progress->templates[i] == NULL) {
            progress->templates[i] = template_compile(scope->conf, scope->node, jsonp_texts[i]);
        }
    }
    return true;
}

#define S struct progress_settings
static const struct directive progress_rows[] = {
    {"upload_progress", IN_HTTP, CUSTOM(uploadprogress_zone_apply), ARGS(2, 2),
     .repeat = REPEAT_CUSTOM, .syntax = "name size",
     .doc = "Defines a shared memory zone with the state of uploads. 1m is sufficient for "
            "about 10,000 uploads."},
    {"track_uploads", IN_LOCATION, CUSTOM_FIELD(S, tracked, track_apply), ARGS(2, 2),
     .syntax = "zone time",
     .doc = "Records the progress of POST requests with an ID in the field or argument "
            "X-Progress-ID. The result is kept for this time. A second upload with the ID "
            "of a current one is refused with 500."},
    {"report_uploads", IN_SERVER | IN_LOCATION, CUSTOM_FIELD(S, reported, report_apply), ARGS(1, 1),
     .repeat = REPEAT_CUSTOM, .syntax = "zone",
     .doc = "Responds with the state of the upload with the ID in the request: starting "
            "(the upload is unknown), uploading, done or error."},
    {"upload_progress_header", IN_HTTP_ALL, STRING(S, header), .initial = "X-Progress-ID",
     .doc = "Name of the field or argument with the ID of an upload."},
    {"upload_progress_content_type", IN_HTTP_ALL, STRING(S, content_type),
     .initial = "text/javascript", .doc = "Media type of reports."},
    {"upload_progress_jsonp_parameter", IN_HTTP_ALL, STRING(S, callback), .initial = "callback",
     .doc = "Name of the argument with the name of the JSONP function."},
    {"upload_progress_java_output", IN_HTTP_ALL, CUSTOM(java_apply), ARGS(0, 0),
     .repeat = REPEAT_CUSTOM, .doc = "Reports are JavaScript objects."},
    {"upload_progress_json_output", IN_HTTP_ALL, CUSTOM(json_apply), ARGS(0, 0),
     .repeat = REPEAT_CUSTOM, .doc = "Reports are JSON."},
    {"upload_progress_jsonp_output", IN_HTTP_ALL, CUSTOM(jsonp_apply), ARGS(0, 0),
     .repeat = REPEAT_CUSTOM, .doc = "Reports are JSONP, which is the default."},
    {"upload_progress_template", IN_HTTP_ALL, CUSTOM(template_apply), ARGS(2, 2),
     .repeat = REPEAT_CUSTOM, .syntax = "starting | uploading | done | error text",
     .doc = "Text of reports for a state. It may contain $uploadprogress_received, "
            "$uploadprogress_length, $uploadprogress_status and $uploadprogress_callback."},
    {0},
};
#undef S

/* First in its phase, so that reading of the body in the same phase is noticed. */
static const struct phase_hook progress_phases[] = {
    {.phase = PHASE_PREACCESS,
     .name = "uploadprogress",
     .before = "degradation",
     .run = track,
     .when = SETTING(progress_key, struct progress_settings, tracked)},
    {.phase = PHASE_LOG,
     .name = "uploadprogress",
     .before = "log",
     .run = note_refusal,
     .when = SETTING(progress_key, struct progress_settings, tracked)},
    {.run = NULL},
};
static const struct http_module progress_hooks = {.variables = progress_variables,
                                                  .phases = progress_phases};

const struct module ngx_http_uploadprogress_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_uploadprogress_module",
    .kind = MODULE_HTTP,
    .table = {.key = &progress_key,
              .rows = progress_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct progress_settings),
              .finish = progress_finish},
    .hooks = &progress_hooks,
};
