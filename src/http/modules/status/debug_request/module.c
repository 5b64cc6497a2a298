/* ngx_http_debug_request_module: records the processing of selected requests as JSON: lines in a
 * file, explanations in a zone. */
#include "http/modules/status/debug_request/way.h"
#include "http/routing/hooks.h"
#include "net/addr/addr.h"
#include "server/generation.h"
#include "server/module.h"
#include "shared/explain/explanations.h"
#include "shared/log/file.h"

#define SECRET_LEAST 16 /* bytes */

/* A header field with a secret, or a network: requests that match one of them are recorded. */
struct debug_rule {
    struct str field;  /* empty: it is a network */
    struct str secret; /* value of the field */
    struct cidr network;
};

struct debug_settings {
    bool is_on;
    struct log_lines *lines;           /* NULL: no file */
    struct explanations *explanations; /* NULL: no zone */
    struct vec rules;                  /* struct debug_rule */
};

static struct settings_key debug_request_key;

TYPED_SETTINGS(debug_settings_at, struct debug_settings, debug_request_key, struct http_location)

/* ---- requests ---- */

/* Compares in constant time. */
static bool is_same_secret(struct str given, struct str secret)
{
    unsigned char difference = 0;

    for (size_t i = 0; i < secret.len; i++) {
        char c = given.len == 0 ? '\0' : given.data[i % given.len];

        difference |= (unsigned char) (c ^ secret.data[i]);
    }
    return given.len == secret.len && difference == 0;
}

/* Removes all fields with the secret, so that backends do not get it. */
static bool take_secret(struct request *request, const struct debug_rule *rule)
{
    bool is_meant = false;

    fields_each(field, &request->headers) {
        if (str_equal_nocase(field->name, rule->field) &&
            is_same_secret(field->value, rule->secret)) {
            field->is_removed = true;
            is_meant = true;
        }
    }
    return is_meant;
}

static enum handler_result begin(struct request *request)
{
    const struct debug_settings *settings = debug_settings_at(request->server->root);
    struct addr client;
    bool is_meant = false;

    if (!settings->is_on || request != request->main) {
        return HANDLER_NEXT;
    }
    request_client(request, &client);
    vec_each(const struct debug_rule, rule, &settings->rules) {
        is_meant |= rule->field.len != 0 ? take_secret(request, rule)
                                         : cidr_contains(&rule->network, &client);
    }
    if (is_meant) {
        way_begin(request, settings->explanations != NULL);
    }
    return HANDLER_NEXT;
}

/* The response gets the id; a field with that name from a backend is removed. */
static void add_id(struct request *request)
{
    const struct str name = STR("X-Explain-ID");
    struct fields *fields = &request->response.fields;

    if (request != request->main || !way_is_kept(request) || way_id(request).len == 0) {
        return;
    }
    fields_each(field, fields) {
        if (str_equal_nocase(field->name, name)) {
            field->is_removed = true;
        }
    }
    fields_add(fields, &request->arena, name, way_id(request));
}

static void write_line(struct log_lines *lines, struct str way)
{
    size_t start = lines->pending.len;

    buf_append(&lines->pending, way);
    buf_append_char(&lines->pending, '\n');
    log_lines_added(lines, start);
}

static void keep_explanation(const struct debug_settings *settings, struct request *request,
                             struct str way)
{
    if (!explanation_keep(settings->explanations, way_id(request), way)) {
        counters_mine->limited++;
        log_warn(&request->log, 0,
                 "debug_request: the explanation has %zu bytes, which is more than %u: it is not "
                 "kept",
                 way.len, EXPLANATION_MOST);
    }
}

static enum handler_result write_way(struct request *request)
{
    const struct debug_settings *settings = debug_settings_at(request->server->root);
    struct buf way = {0};

    if (!settings->is_on || request != request->main || !way_is_kept(request)) {
        return HANDLER_NEXT;
    }
    way_put(request, &way);
    if (settings->lines != NULL) {
        write_line(settings->lines, buf_str(&way));
    }
    if (settings->explanations != NULL) {
        keep_explanation(settings, request, buf_str(&way));
    }
    buf_free(&way);
    return HANDLER_NEXT;
}

/* ---- the directive ---- */

static bool take_header(struct conf *conf, const struct conf_node *node, struct str word,
                        struct debug_rule *rule)
{
    rule->secret = word;
    rule->field = str_cut(&rule->secret, ':');
    if (rule->field.len == 0 || rule->secret.len < SECRET_LEAST) {
        return conf_error(
            conf, node,
            "\"header=\" of \"debug_request\" wants a name, a colon and a secret of at "
            "least %d characters",
            SECRET_LEAST);
    }
    return true;
}

static bool take_word(struct conf *conf, const struct conf_node *node, struct str word,
                      struct debug_settings *settings)
{
    struct debug_rule rule = {0};

    if (str_starts(word, STR("zone="))) {
        settings->explanations =
            explanations_open(conf, (struct conf_node *) node, str_skip(word, 5));
        return settings->explanations != NULL;
    }
    if (str_starts(word, STR("header="))) {
        if (!take_header(conf, node, str_skip(word, 7), &rule)) {
            return false;
        }
    } else if (!str_starts(word, STR("address=")) ||
               !cidr_parse(str_skip(word, 8), &rule.network)) {
        return conf_error(conf, node, "invalid parameter \"%.*s\" of \"debug_request\"",
                          STR_ARG(word));
    }
    *vec_add(&settings->rules, conf->arena, struct debug_rule) = rule;
    return true;
}

static bool open_file(struct conf *conf, struct conf_node *node, struct debug_settings *settings)
{
    static const struct log_buffering unbuffered = {0};

    settings->lines = log_lines_for(conf, node, node->args[1], &unbuffered);
    if (settings->lines != NULL) {
        settings->lines->file->is_secret = true;
    }
    return settings->lines != NULL;
}

static bool apply_debug(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *data)
{
    struct debug_settings *settings = data;

    *settings = (struct debug_settings){0};
    if (conf_is_default(scope) || (node->count == 2 && str_is(node->args[1], "off"))) {
        return true;
    }
    /* The file comes first, and is optional if there is a zone. */
    bool has_file = !str_starts(node->args[1], STR("zone="));
    for (unsigned i = has_file ? 2 : 1; i < node->count; i++) {
        if (!take_word(scope->conf, node, node->args[i], settings)) {
            return false;
        }
    }
    if (settings->rules.count == 0) {
        return conf_error(scope->conf, node,
                          "\"debug_request\" wants a \"header=\" or an \"address=\"");
    }
    settings->is_on = true;
    return !has_file || open_file(scope->conf, node, settings);
}

static const struct directive debug_rows[] = {
    {"debug_request", IN_HTTP | IN_SERVER, CUSTOM(apply_debug), ARGS(1, ARGS_ANY),
     .syntax = "[file] [zone=name:size] [header=name:secret] [address=network] ... | off",
     .initial = "off",
     .doc = "Writes the processing steps of a request to a file, one JSON object per line, "
            "for requests with this header field and secret or from clients in this "
            "network. With `zone`, the most recent ones are also kept in shared memory: "
            "the response has their ID in `X-Explain-ID`, and `/explain/ID` of `api` "
            "returns the steps."},
    {0},
};

static const struct phase_hook debug_phases[] = {
    {.phase = PHASE_POST_READ,
     .name = "debug_request",
     .after = "realip",
     .run = begin,
     .when = SETTING(debug_request_key, struct debug_settings, is_on)},
    {.phase = PHASE_LOG,
     .name = "debug_request",
     .after = "log",
     .run = write_way,
     .when = SETTING(debug_request_key, struct debug_settings, is_on)},
    {.run = NULL},
};

static const struct filter_hook debug_filters[] = {
    {.name = "debug_request",
     .after = "headers",
     .run = add_id,
     .when = SETTING(debug_request_key, struct debug_settings, explanations)},
    {.run = NULL},
};

static const struct http_module debug_hooks = {.phases = debug_phases, .filters = debug_filters};

const struct module ngx_http_debug_request_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_debug_request_module",
    .kind = MODULE_HTTP,
    .table = {.key = &debug_request_key,
              .rows = debug_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct debug_settings)},
    .hooks = &debug_hooks,
};
