/* ngx_http_debug_request_module: the way of chosen requests through the server, as JSON lines. */
#include "http/modules/status/debug_request/way.h"
#include "http/routing/hooks.h"
#include "net/addr/addr.h"
#include "server/module.h"
#include "shared/log/file.h"

#define SECRET_LEAST 16 /* bytes */

/* A field with a secret, or a network: who has one of them is looked at. */
struct debug_rule {
    struct str field;  /* empty: a network */
    struct str secret; /* of the field */
    struct cidr network;
};

struct debug_settings {
    struct log_lines *lines; /* NULL = off */
    struct vec rules;        /* struct debug_rule */
};

static struct settings_key debug_request_key;

TYPED_SETTINGS(debug_settings_at, struct debug_settings, debug_request_key, struct http_location)

/* ---- requests ---- */

/* Takes the same time wherever they differ. */
static bool is_same_secret(struct str given, struct str secret)
{
    unsigned char difference = 0;

    for (size_t i = 0; i < secret.len; i++) {
        char c = given.len == 0 ? '\0' : given.data[i % given.len];

        difference |= (unsigned char) (c ^ secret.data[i]);
    }
    return given.len == secret.len && difference == 0;
}

/* Backends do not get the secret, however often it is there. */
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

    if (settings->lines == NULL || request != request->main) {
        return HANDLER_NEXT;
    }
    request_client(request, &client);
    vec_each(const struct debug_rule, rule, &settings->rules) {
        is_meant |= rule->field.len != 0 ? take_secret(request, rule)
                                         : cidr_contains(&rule->network, &client);
    }
    if (is_meant) {
        way_begin(request);
    }
    return HANDLER_NEXT;
}

static enum handler_result write_line(struct request *request)
{
    const struct debug_settings *settings = debug_settings_at(request->server->root);

    if (settings->lines == NULL || request != request->main || !way_is_kept(request)) {
        return HANDLER_NEXT;
    }
    struct buf *pending = &settings->lines->pending;
    size_t start = pending->len;

    way_put(request, pending);
    buf_append_char(pending, '\n');
    log_lines_added(settings->lines, start);
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

static bool take_rule(struct conf *conf, const struct conf_node *node, struct str word,
                      struct debug_settings *settings)
{
    struct debug_rule rule = {0};

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

static bool apply_debug(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *data)
{
    static const struct log_buffering unbuffered = {0};
    struct debug_settings *settings = data;

    *settings = (struct debug_settings){0};
    if (conf_is_default(scope)) {
        return true;
    }
    if (node->count == 2) {
        return str_is(node->args[1], "off") ||
               conf_error(
                   scope->conf, node,
                   "\"debug_request\" wants a \"header=\" or an \"address=\" after its file");
    }
    for (unsigned i = 2; i < node->count; i++) {
        if (!take_rule(scope->conf, node, node->args[i], settings)) {
            return false;
        }
    }
    settings->lines = log_lines_for(scope->conf, node, node->args[1], &unbuffered);
    if (settings->lines != NULL) {
        settings->lines->file->is_secret = true;
    }
    return settings->lines != NULL;
}

static const struct directive debug_rows[] = {
    {"debug_request", IN_HTTP | IN_SERVER, CUSTOM(apply_debug), ARGS(1, ARGS_ANY),
     .syntax = "<file> [header=<name>:<secret>] [address=<network>] ... | off", .initial = "off",
     .doc =
         "Writes the way of a request through the server to a file, one JSON object a line: for requests with this field and secret, or of clients of this network."},
    {0},
};

static const struct phase_hook debug_phases[] = {
    {.phase = PHASE_POST_READ,
     .name = "debug_request",
     .after = "realip",
     .run = begin,
     .when = SETTING(debug_request_key, struct debug_settings, lines)},
    {.phase = PHASE_LOG,
     .name = "debug_request",
     .after = "log",
     .run = write_line,
     .when = SETTING(debug_request_key, struct debug_settings, lines)},
    {.run = NULL},
};

static const struct http_module debug_hooks = {.phases = debug_phases};

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
