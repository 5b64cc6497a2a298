/* ngx_http_xslt_filter_module: transforms XML responses with stylesheets. */
#include "http/modules/filters/xslt/transform.h"

#include "base/buf.h"
#include "base/text.h"
#include "http/files/file.h"
#include "http/message/type_set.h"
#include "http/request/offload.h"
#include "http/request/body_filter.h"
#include "http/routing/hooks.h"
#include "server/generation.h"
#include "server/module.h"

static struct offload_shares xslt_shares;
static const struct offload_pool xslt_pool = {.name = STR_INIT("xslt"),
                                              .waiting = "documents wait to be transformed",
                                              .threads = 2,
                                              .queue = 64,
                                              .shares = &xslt_shares};

/* A stylesheet of a location. */
struct sheet_use {
    struct xslt_sheet *sheet;
    struct vec params; /* struct template *: "name=value:name=value", values percent-encoded */
};

/* xslt_param, xslt_string_param. */
struct param_use {
    struct str name;
    struct template *value;
    bool is_string;
};

struct xslt_settings {
    struct vec sheets;  /* struct sheet_use: applied in order; none = off */
    struct vec params;  /* struct param_use: for all stylesheets, XPath expressions */
    struct vec strings; /* struct param_use: for all stylesheets, strings */
    struct type_set *types;
    struct xslt_dtd *dtd; /* or NULL */
    uint64_t max_size;    /* most bytes of a document */
    bool keeps_modified;  /* xslt_last_modified */
    bool loads_entities;  /* xml_external_entities */
};

static struct settings_key xslt_key;

TYPED_SETTINGS(xslt_settings_at, struct xslt_settings, xslt_key, struct http_location)

/* ---- parameters of a request ---- */

static void add_param(struct request *request, struct vec *params, struct str name,
                      struct str value, bool is_string)
{
    *vec_add(params, &request->arena, struct xslt_param) =
        (struct xslt_param){.name = arena_cstr(&request->arena, name),
                            .value = arena_cstr(&request->arena, value),
                            .is_string = is_string};
}

/* "name=value:name=value". False: one has no "=". */
static bool add_inline(struct request *request, struct vec *params, struct str text)
{
    while (text.data != NULL && text.len != 0) {
        struct str value = str_cut(&text, ':');
        struct str name = str_cut(&value, '=');
        if (value.data == NULL) {
            log_error(&request->log, 0, "invalid libxslt parameter \"%.*s\"", STR_ARG(name));
            return false;
        }
        add_param(request, params, name, percent_decode(&request->arena, value), false);
    }
    return true;
}

/* Collects the parameters of each stylesheet: the common ones, then its own. */
static bool collect_steps(struct request *request, const struct xslt_settings *settings,
                          struct vec *steps)
{
    vec_each(const struct sheet_use, use, &settings->sheets) {
        struct vec params = {0};
        vec_each(const struct param_use, param, &settings->params) {
            add_param(request, &params, param->name, template_text(param->value, &request->env),
                      false);
        }
        vec_each(const struct param_use, param, &settings->strings) {
            add_param(request, &params, param->name, template_text(param->value, &request->env),
                      true);
        }
        vec_each(struct template *const, text, &use->params) {
            if (!add_inline(request, &params, template_text(*text, &request->env))) {
                return false;
            }
        }
        *vec_add(steps, &request->arena, struct xslt_step) =
            (struct xslt_step){.sheet = use->sheet,
                               .params = params.items,
                               .param_count = params.count};
    }
    return true;
}

/* ---- a response ---- */

/* Per response, in the request's arena. */
struct xslt_filter {
    struct body_filter filter;
    const struct xslt_settings *settings;
    struct buf bytes; /* the document so far */
    bool is_done;
    struct xslt_job job;
};

static void drop_filter(void *arg)
{
    struct xslt_filter *xslt = arg;

    buf_free(&xslt->bytes);
    if (xslt->job.result != NULL) {
        xslt_free(xslt->job.result);
    }
}

static void transform_on_thread(void *arg)
{
    xslt_transform(arg);
}

/* MAY WAIT. False: it failed; a status is set unless the client is gone. */
static bool transform_offloaded(struct xslt_filter *xslt, struct request *request)
{
    struct xslt_job *job = &xslt->job;

    switch (offload_run(&xslt_pool, request, transform_on_thread, job)) {
    case THREAD_CALL_DONE:
        break;
    case THREAD_CALL_CANCELLED:
        return false;
    default:
        return response_withdraw(request, 503, STR_NONE);
    }
    if (job->result != NULL) {
        return true;
    }
    if (job->message[0] != '\0') {
        log_error(&request->log, 0, "libxml2 error: \"%s\"", job->message);
    }
    if (job->error != 0) {
        log_error(&request->log, 0, "%s, error:%d", job->failed, job->error);
    } else {
        log_error(&request->log, 0, "%s", job->failed);
    }
    return response_withdraw(request, 500, STR_NONE);
}

/* Sets the media type and charset of the last stylesheet. */
static void xslt_describe(struct xslt_filter *xslt, struct request *request)
{
    const struct xslt_step *last = &xslt->job.steps[xslt->job.step_count - 1];
    struct response *response = &request->response;
    struct str type = xslt_media_type(last->sheet);
    struct str encoding = xslt_encoding(last->sheet);

    if (type.len != 0) {
        response->content_type = type;
    } else if (xslt->job.is_html) {
        response->content_type = STR("text/html");
    }
    if (encoding.len != 0) {
        response->charset = encoding;
    }
    response_change_body(request, xslt->settings->keeps_modified);
    response->content_length = (int64_t) xslt->job.result_size;
}

/* Transforms the complete document and sends the result. MAY WAIT. */
static bool give_result(struct xslt_filter *xslt, struct request *request)
{
    struct vec steps = {0};

    xslt->is_done = true;
    if (!collect_steps(request, xslt->settings, &steps)) {
        return response_withdraw(request, 500, STR_NONE);
    }
    xslt->job = (struct xslt_job){
        .document = buf_str(&xslt->bytes),
        .dtd = xslt->settings->dtd,
        .loads_entities = xslt->settings->loads_entities,
        .steps = steps.items,
        .step_count = steps.count,
    };
    if (!transform_offloaded(xslt, request)) {
        return false;
    }
    xslt_describe(xslt, request);
    const struct body_piece piece = {.bytes = {xslt->job.result, xslt->job.result_size}, .fd = -1};
    switch (response_resume(request)) {
    case HANDLER_NEXT:
        return body_filter_next(&xslt->filter, request, &piece, true);
    case HANDLER_DONE:
        return true;
    default:
        return false;
    }
}

static bool xslt_send(struct body_filter *filter, struct request *request,
                      const struct body_piece *piece, bool is_last)
{
    struct xslt_filter *xslt = container_of(filter, struct xslt_filter, filter);

    if (xslt->is_done) {
        return body_filter_next(filter, request, piece, is_last);
    }
    if (piece != NULL) {
        size_t size = piece->bytes.data == NULL ? 0 : piece->bytes.len;
        bool is_too_big = size > xslt->settings->max_size - xslt->bytes.len;
        if (!is_too_big && size != 0) {
            buf_append(&xslt->bytes, piece->bytes);
        }
        if (piece->release != NULL) {
            piece->release(piece->release_arg);
        }
        if (is_too_big) {
            counters_mine->limited++;
            log_error(&request->log, 0, "too large a document for xslt (xslt_max_size)");
            return response_withdraw(request, 500, STR_NONE);
        }
    }
    return !is_last || give_result(xslt, request);
}

static void xslt_header(struct request *request)
{
    const struct xslt_settings *settings = xslt_settings_at(request->location);
    struct response *response = &request->response;

    if (request != request->main || response->is_built_in || response->framing == FRAMING_TUNNEL ||
        response->status == 304 || response->status == 204 ||
        !type_set_has(settings->types, response->content_type)) {
        return;
    }
    struct xslt_filter *xslt = arena_new(&request->arena, struct xslt_filter);
    xslt->filter.send = xslt_send;
    xslt->settings = settings;
    arena_on_free(&request->arena, drop_filter, xslt);
    response->range.is_allowed = false;
    fields_set(&response->fields, &request->arena, FIELD_ACCEPT_RANGES, STR_NONE);
    response_needs_memory(request);
    response_append_filter(request, &xslt->filter);
    response_hold(request);
}

/* ---- directives ---- */

static bool sheet_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct str path = conf_full_name(conf, node->args[1], true);
    struct sheet_use use = {.sheet = xslt_sheet_load(arena_cstr(conf->arena, path))};

    if (use.sheet == NULL) {
        return conf_error(conf, node, "xsltParseStylesheetFile(\"%.*s\") failed", STR_ARG(path));
    }
    arena_on_free(conf->arena, xslt_sheet_free, use.sheet);
    for (unsigned i = 2; i < node->count; i++) {
        struct template *text = template_compile(conf, node, node->args[i]);
        if (text == NULL) {
            return false;
        }
        *vec_add(&use.params, conf->arena, struct template *) = text;
    }
    *vec_add(&((struct xslt_settings *) settings)->sheets, conf->arena, struct sheet_use) = use;
    return true;
}

static bool add_param_use(struct conf_scope *scope, struct conf_node *node, struct vec *params,
                          bool is_string)
{
    struct template *value = template_compile(scope->conf, node, node->args[2]);

    if (value == NULL) {
        return false;
    }
    *vec_add(params, scope->conf->arena, struct param_use) =
        (struct param_use){.name = node->args[1], .value = value, .is_string = is_string};
    return true;
}

static bool param_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return add_param_use(scope, node, &((struct xslt_settings *) settings)->params, false);
}

static bool string_param_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    return add_param_use(scope, node, &((struct xslt_settings *) settings)->strings, true);
}

static bool entities_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    struct xslt_settings *own = settings;
    struct str path = conf_full_name(scope->conf, node->args[1], true);

    own->dtd = xslt_dtd_load(arena_cstr(scope->conf->arena, path));
    if (own->dtd == NULL) {
        return conf_error(scope->conf, node, "xmlParseDTD(\"%.*s\") failed", STR_ARG(path));
    }
    arena_on_free(scope->conf->arena, xslt_dtd_free, own->dtd);
    return true;
}

#define S struct xslt_settings
static const struct directive xslt_rows[] = {
    {"xslt_stylesheet", IN_LOCATION, CUSTOM_FIELD(S, sheets, sheet_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "stylesheet [parameter=value ...]",
     .doc = "Transforms XML responses with an XSLT stylesheet; several stylesheets are "
            "applied in order. Parameters are XPath expressions, percent-encoded; one "
            "argument may contain several, separated by `:`. A stylesheet cannot read "
            "files or open connections; the stylesheets that it includes are read with the "
            "configuration. The transformation runs on threads: `thread_pool xslt` sets "
            "the number of threads (2 by default) and of waiting requests (64)."},
    {"xslt_param", IN_HTTP_ALL, CUSTOM_FIELD(S, params, param_apply), ARGS(2, 2),
     .repeat = REPEAT_APPEND, .syntax = "parameter value",
     .doc = "Parameter of stylesheets with an XPath expression as its value."},
    {"xslt_string_param", IN_HTTP_ALL, CUSTOM_FIELD(S, strings, string_param_apply), ARGS(2, 2),
     .repeat = REPEAT_APPEND, .syntax = "parameter value",
     .doc = "Parameter of stylesheets with a string as its value."},
    {"xslt_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .initial = "text/xml", .syntax = "mime-type ...",
     .doc = "Media types of responses that are transformed, in addition to text/xml; * "
            "matches any type."},
    {"xslt_last_modified", IN_HTTP_ALL, FLAG(S, keeps_modified), .initial = "off",
     .doc = "Whether Last-Modified and, as a weak one, ETag of transformed responses are "
            "kept."},
    {"xslt_max_size", IN_HTTP_ALL, SIZE(S, max_size), .initial = "10m",
     .doc = "Maximum size of a document that is transformed; larger ones are replaced with "
            "500. nginx does not have this directive."},
    {"xml_entities", IN_HTTP_ALL, CUSTOM_FIELD(S, dtd, entities_apply), ARGS(1, 1),
     .syntax = "path",
     .doc = "DTD file with declarations of entities for documents that have a document "
            "type."},
    {"xml_external_entities", IN_HTTP_ALL, FLAG(S, loads_entities), .initial = "off",
     .doc = "Whether documents may include files as external entities. If other people "
            "write the documents, this discloses all files that the workers can read."},
    {0},
};
#undef S

static const struct filter_hook xslt_filters[] = {
    {.name = "xslt",
     .run = xslt_header,
     .when = SETTING(xslt_key, struct xslt_settings, sheets.count)},
    {.run = NULL},
};
static const struct http_module xslt_hooks = {.filters = xslt_filters};

static bool xslt_worker_start(struct generation *generation)
{
    xslt_confine();
    return true;
}

const struct module ngx_http_xslt_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_xslt_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &xslt_key,
              .rows = xslt_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct xslt_settings)},
    .hooks = &xslt_hooks,
    .worker_start = xslt_worker_start,
};
