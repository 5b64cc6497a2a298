/* ngx_http_modsecurity_module: checks requests and responses with rules of libmodsecurity. */
#include <stdlib.h>
#include <string.h>

#include "http/files/file.h"
#include "http/modules/access/modsecurity/transaction.h"
#include "http/request/body.h"
#include "http/request/body_filter.h"
#include "http/routing/hooks.h"
#include "server/module.h"

struct modsecurity_settings {
    struct rule_set *rules; /* of this block, or inherited; NULL = none */
    struct rule_set *outer; /* rules of the outer block; NULL = none */
    struct template *id;    /* modsecurity_transaction_id; NULL: the engine generates one */
    bool is_own;            /* this block has rules of its own */
    bool is_on;             /* modsecurity */
    bool uses_error_log;    /* modsecurity_use_error_log */
};

static struct settings_key modsecurity_key;

TYPED_SETTINGS(modsecurity_settings_at, struct modsecurity_settings, modsecurity_key,
               struct http_location)

/* ---- requests ---- */

static enum handler_result modsecurity_refuse(struct request *request,
                                              const struct verdict *verdict)
{
    if (verdict->status == 499) {
        return HANDLER_CLOSED;
    }
    request->response.location = verdict->location;
    return request_fail(request, verdict->status);
}

/* Phase 1, once per client request, with the rules of the first location where they are on. MAY
 * WAIT. */
static enum handler_result look_at_head(struct request *request)
{
    const struct modsecurity_settings *settings = modsecurity_settings_at(request->location);
    struct verdict verdict;
    const char *id = NULL;

    if (request != request->main || request->is_post_action || settings->rules == NULL ||
        inspection_of(request) != NULL) {
        return HANDLER_NEXT;
    }
    if (settings->id != NULL) {
        id = arena_cstr(&request->arena, template_text(settings->id, &request->env));
    }
    struct inspection *inspection = inspection_new(request, settings->rules, id);
    inspection->uses_error_log = settings->uses_error_log;
    return inspect_head(inspection, &verdict) ? HANDLER_NEXT
                                              : modsecurity_refuse(request, &verdict);
}

static bool modsecurity_is_over(const struct inspection *inspection)
{
    return inspection == NULL || inspection->is_refused || inspection->has_failed;
}

/* Phase 2, once; the body is read first. MAY WAIT. */
static enum handler_result look_at_body(struct request *request)
{
    struct inspection *inspection = inspection_of(request);
    struct verdict verdict;

    if (modsecurity_is_over(inspection) || inspection->has_seen_body || request->is_post_action) {
        return HANDLER_NEXT;
    }
    enum handler_result result = request_read_body(request);
    if (result != HANDLER_NEXT) {
        return result;
    }
    inspection->has_seen_body = true;
    return inspect_body(inspection, &verdict) ? HANDLER_NEXT
                                              : modsecurity_refuse(request, &verdict);
}

/* ---- responses ---- */

/* A response whose body is checked; in the request's arena. */
struct hold {
    struct body_filter filter;
    struct inspection *inspection;
    struct buf body; /* held so far; freed with the request */
    uint64_t limit;  /* bytes; the body beyond it is not checked, unless the rules reject that */
    bool is_open;    /* the body has passed the check */
};

static void hold_free(void *arg)
{
    struct hold *hold = arg;

    buf_free(&hold->body);
}

/* Phase 4. MAY WAIT. False: the response is replaced. */
static bool look_at_response_body(struct hold *hold, struct request *request)
{
    struct verdict verdict;

    hold->inspection->has_seen_response_body = true;
    if (inspect_response_body(hold->inspection, buf_str(&hold->body), &verdict)) {
        return true;
    }
    return response_withdraw(request, verdict.status, verdict.location);
}

/* Holds the body, up to the limit, until the rules have checked it. */
static bool hold_send(struct body_filter *filter, struct request *request,
                      const struct body_piece *piece, bool is_last)
{
    struct hold *hold = container_of(filter, struct hold, filter);

    if (hold->is_open) {
        return body_filter_next(filter, request, piece, is_last);
    }
    if (request->response.hold.refusal != 0) {
        return response_drop(piece);
    }
    if (piece != NULL) {
        buf_append(&hold->body, piece->bytes);
        if (piece->release != NULL) {
            piece->release(piece->release_arg);
        }
    }
    if (!is_last && hold->body.len <= hold->limit) {
        return true;
    }
    if (!look_at_response_body(hold, request)) {
        return false;
    }
    const struct body_piece whole = {.bytes = buf_str(&hold->body), .fd = -1};
    hold->is_open = true;
    if (response_resume(request) != HANDLER_NEXT) {
        return false;
    }
    return body_filter_next(filter, request, hold->body.len == 0 ? NULL : &whole, is_last);
}

/* Holds the body of the response if the rules apply to it. */
static void hold_body(struct inspection *inspection)
{
    struct request *request = inspection->request;
    struct response *response = &request->response;
    uint64_t limit;

    if (inspection->has_seen_response_body || response->is_header_only ||
        response->framing == FRAMING_TUNNEL || response->raw_head.len != 0 ||
        response->status == 204 || response->status == 304 ||
        (limit = rule_set_response_limit(inspection->set, response->content_type)) == 0) {
        return;
    }
    struct hold *hold = arena_new(&request->arena, struct hold);
    hold->filter.send = hold_send;
    hold->inspection = inspection;
    hold->limit = limit;
    arena_on_free(&request->arena, hold_free, hold);
    response->range.is_allowed = false; /* the rules need the whole body, not a range */
    response_needs_memory(request);
    response_append_filter(request, &hold->filter);
    response_hold(request);
}

/* Phase 3, once; decides whether there will be a phase 4. */
static void look_at_response(struct request *request)
{
    struct inspection *inspection = inspection_of(request);
    struct verdict verdict;

    if (modsecurity_is_over(inspection)) {
        return;
    }
    if (!inspection->has_seen_response) {
        inspection->has_seen_response = true;
        if (!inspect_response_head(inspection, &verdict)) {
            response_withdraw(request, verdict.status, verdict.location);
            return;
        }
    }
    hold_body(inspection);
}

/* Phase 5. */
static enum handler_result write_logs(struct request *request)
{
    struct inspection *inspection = inspection_of(request);

    if (inspection != NULL) {
        connection_push(request->connection); /* rules of the logging phase run */
        inspection_log(inspection);
    }
    return HANDLER_NEXT;
}

/* ---- directives ---- */

/* Reports libmodsecurity's message as a configuration error, in one line. */
static bool rules_error(struct conf_scope *scope, const struct conf_node *node, const char *error)
{
    char *text = arena_cstr(scope->conf->arena, error == NULL || error[0] == '\0'
                                                    ? STR("failed")
                                                    : (struct str){error, strlen(error)});
    size_t len = strlen(text);

    free((void *) (uintptr_t) error);
    while (len != 0 && (text[len - 1] == '\n' || text[len - 1] == ' ')) {
        text[--len] = '\0';
    }
    for (size_t i = 0; i < len; i++) {
        text[i] = text[i] == '\n' ? ' ' : text[i];
    }
    if (node == NULL) {
        return conf_error(scope->conf, scope->node, "modsecurity: %s", text);
    }
    return conf_error(scope->conf, node, "\"%.*s\" directive %s", STR_ARG(node->args[0]), text);
}

/* The block's own set, made at its first directive. NULL after conf_error. */
static struct rule_set *own_rules(struct conf_scope *scope, const struct conf_node *node,
                                  struct modsecurity_settings *settings)
{
    if (settings->is_own) {
        return settings->rules;
    }
    settings->outer = settings->rules;
    settings->rules = rule_set_new(scope->conf->arena);
    settings->is_own = settings->rules != NULL;
    if (settings->rules == NULL) {
        rules_error(scope, node, NULL);
    }
    return settings->rules;
}

static bool rules_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct rule_set *set = own_rules(scope, node, settings);
    const char *error = NULL;

    return set != NULL &&
           (rule_set_add(set, arena_cstr(scope->conf->arena, node->args[1]), &error) ||
            rules_error(scope, node, error));
}

static bool rules_file_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct str path = conf_full_name(scope->conf, node->args[1], true);
    struct rule_set *set = own_rules(scope, node, settings);
    const char *error = NULL;

    return set != NULL && (rule_set_add_file(set, arena_cstr(scope->conf->arena, path), &error) ||
                           rules_error(scope, node, error));
}

static bool rules_remote_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    return conf_error(scope->conf, node,
                      "\"modsecurity_rules_remote\" is not supported: rules are not taken from the "
                      "network, use \"modsecurity_rules_file\"");
}

/* The block's own rules precede those of the outer block. */
static bool settings_finish(struct conf_scope *scope, void *data)
{
    struct modsecurity_settings *settings = data;
    const char *error = NULL;

    if (!settings->is_own) {
        return true;
    }
    return ((settings->outer == NULL || rule_set_merge(settings->rules, settings->outer, &error)) &&
            rule_set_finish(settings->rules, scope->conf->arena, &error)) ||
           rules_error(scope, NULL, error);
}

static void settings_fresh(void *data)
{
    struct modsecurity_settings *settings = data;

    settings->is_own = false;
    settings->outer = NULL;
}

static bool modsecurity_begin(struct conf *conf, struct http_main *main)
{
    inspection_take_notes();
    return true;
}

#define S struct modsecurity_settings
static const struct directive modsecurity_rows[] = {
    {"modsecurity", IN_HTTP_ALL, FLAG(S, is_on), .initial = "off",
     .doc = "Enables checks of requests and responses with ModSecurity rules. A client's "
            "request is checked once, with the rules of the first location that enables it; "
            "its body is read before the request is passed on. The rules define the "
            "response to a request that they refuse. Rules run in threads; `thread_pool "
            "modsecurity` sets the number of threads (2) and of requests that may wait "
            "(512); further requests receive 503."},
    {"modsecurity_rules", IN_HTTP_ALL, CUSTOM(rules_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "rules",
     .doc = "ModSecurity rules. They are compiled when the configuration is read, and added "
            "to those of the outer block."},
    {"modsecurity_rules_file", IN_HTTP_ALL, CUSTOM(rules_file_apply), ARGS(1, 1),
     .repeat = REPEAT_CUSTOM, .syntax = "file",
     .doc = "File with ModSecurity rules; a relative path starts at the directory of the "
            "configuration."},
    {"modsecurity_rules_remote", IN_HTTP_ALL, CUSTOM(rules_remote_apply), ARGS(2, 2),
     .repeat = REPEAT_CUSTOM, .syntax = "key url",
     .doc = "Not supported and refused: rules are not loaded from the network."},
    {"modsecurity_transaction_id", IN_HTTP_ALL, TEMPLATE(S, id), .syntax = "string",
     .doc = "Identifier of a request in the logs of the rules; by default ModSecurity "
            "generates one."},
    {"modsecurity_use_error_log", IN_HTTP_ALL, FLAG(S, uses_error_log), .initial = "on",
     .doc = "Whether messages of the rules, such as matches that refuse nothing, are "
            "written to the error log, at the level `info`. Refused requests are always "
            "logged, at the level `error`."},
    {0},
};
#undef S

static const struct phase_hook modsecurity_phases[] = {
    {.phase = PHASE_REWRITE,
     .name = "modsecurity_head",
     .before = "rewrite",
     .run = look_at_head,
     .when = SETTING(modsecurity_key, struct modsecurity_settings, is_on)},
    {.phase = PHASE_PREACCESS,
     .name = "modsecurity_body",
     .after = "limit_conn",
     .run = look_at_body,
     .when = SETTING(modsecurity_key, struct modsecurity_settings, is_on)},
    {.phase = PHASE_LOG,
     .name = "modsecurity_log",
     .before = "log",
     .run = write_logs,
     .is_active = NULL},
    {.run = NULL},
};
static const struct filter_hook modsecurity_filters[] = {
    {.name = "modsecurity",
     .after = "headers",
     .run = look_at_response,
     .when = SETTING(modsecurity_key, struct modsecurity_settings, is_on)},
    {.run = NULL},
};
static const struct http_module modsecurity_hooks = {
    .phases = modsecurity_phases,
    .filters = modsecurity_filters,
    .begin = modsecurity_begin,
};

const struct module ngx_http_modsecurity_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_modsecurity_module",
    .kind = MODULE_HTTP,
    .table = {.key = &modsecurity_key,
              .rows = modsecurity_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct modsecurity_settings),
              .finish = settings_finish,
              .fresh = settings_fresh},
    .hooks = &modsecurity_hooks,
};
