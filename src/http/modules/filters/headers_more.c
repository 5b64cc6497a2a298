/* ngx_http_headers_more_filter_module: sets, replaces and removes fields of responses and
 * requests. */
#include <string.h>

#include "base/parse.h"
#include "http/request/field_change.h"
#include "http/routing/hooks.h"
#include "server/module.h"

/* One field of a directive. */
struct change {
    struct str name;
    enum field_id id;
    struct template *value; /* NULL = the field is removed */
    struct str constant;    /* a value without variables; empty = the field is removed */
    bool is_wildcard;       /* name is a prefix; the "*" after it is not included */
};

/* One directive. */
struct rule {
    struct vec changes;  /* struct change, in order */
    struct vec statuses; /* uint64_t: status codes it applies to; none = all */
    struct vec types;    /* struct str: media types it applies to; none = all */
    bool appends;        /* -a: added next to existing fields */
    bool only_existing;  /* -r: only replaces existing fields of the request */
};

struct headers_more_settings {
    struct vec output; /* struct rule: for responses; outer ones first */
    struct vec input;  /* struct rule: for requests; outer ones first */
};

static struct settings_key headers_more_key;

TYPED_SETTINGS(headers_more_settings_at, struct headers_more_settings, headers_more_key,
               struct http_location)

static struct str value_of(struct request *request, const struct change *change)
{
    if (change->value == NULL || change->value->is_constant) {
        return change->constant;
    }
    return field_value_safe(&request->arena, template_text(change->value, &request->env));
}

static bool is_named(const struct change *change, struct str name)
{
    return change->is_wildcard ? str_starts_nocase(name, change->name)
                               : str_equal_nocase(name, change->name);
}

/* Does the rule apply to this media type? That of a request is compared with its parameters, as in
 * nginx. */
static bool lists_type(const struct rule *rule, struct str type)
{
    vec_each(const struct str, item, &rule->types) {
        if (str_equal(*item, type)) {
            return true;
        }
    }
    return rule->types.count == 0;
}

/* ---- responses ---- */

static bool lists_status(const struct rule *rule, unsigned status)
{
    vec_each(const uint64_t, item, &rule->statuses) {
        if (*item == status) {
            return true;
        }
    }
    return rule->statuses.count == 0;
}

/* Does the response have this field, which is not in `fields`, from a backend? */
static bool has_in_place(const struct response *response, enum field_id id)
{
    switch (id) {
    case FIELD_LOCATION:
        return response->location.len != 0;
    case FIELD_ETAG:
        return response->etag.len != 0;
    default:
        return response->last_modified != -1 && response->order.is_modified_late;
    }
}

/* All fields with this prefix: the first gets the value, the others are removed; without a value
 * all are removed. Fields that the server generates itself stay, as in nginx. If no field has the
 * prefix, one with the literal name, "*" included, is added. */
static void change_wildcard(struct request *request, const struct change *change, struct str value)
{
    static const struct {
        enum field_id id;
        struct str name;
    } in_place[] = {
        {FIELD_LOCATION, STR_INIT("Location")},
        {FIELD_LAST_MODIFIED, STR_INIT("Last-Modified")},
        {FIELD_ETAG, STR_INIT("ETag")},
    };
    struct response *response = &request->response;
    struct field_change what = {.value = value};
    bool is_found = false;

    for (size_t i = 0; i < sizeof(in_place) / sizeof(in_place[0]); i++) {
        if (is_named(change, in_place[i].name) && has_in_place(response, in_place[i].id)) {
            what.id = in_place[i].id;
            what.name = in_place[i].name;
            response_change_field(request, &what);
            what.value = STR_NONE;
            is_found = true;
        }
    }
    fields_each(field, &response->fields) {
        if (field->is_removed || !str_starts_nocase(field->name, change->name) ||
            (is_found && field->value.data == value.data)) {
            continue;
        }
        field->is_removed = what.value.len == 0;
        field->value = what.value;
        what.value = STR_NONE;
        is_found = true;
    }
    if (!is_found && value.len != 0) {
        what.id = FIELD_OTHER;
        what.name = (struct str){change->name.data, change->name.len + 1};
        response_change_field(request, &what);
    }
}

static void headers_more_filter(struct request *request)
{
    const struct response *response = &request->response;

    vec_each(const struct rule, rule, &headers_more_settings_at(request->location)->output) {
        struct str rest = response->content_type;

        if (!lists_status(rule, response->status) || !lists_type(rule, str_cut(&rest, ';'))) {
            continue;
        }
        vec_each(const struct change, change, &rule->changes) {
            if (change->is_wildcard) {
                change_wildcard(request, change, value_of(request, change));
            } else {
                const struct field_change what = {.name = change->name,
                                                  .id = change->id,
                                                  .value = value_of(request, change),
                                                  .appends = rule->appends};
                response_change_field(request, &what);
            }
        }
    }
}

/* ---- requests ---- */

static void change_input(struct request *request, const struct rule *rule,
                         const struct change *change)
{
    const struct field_change what = {.name = change->name,
                                      .id = change->is_wildcard ? FIELD_OTHER : change->id,
                                      .value = value_of(request, change),
                                      .is_prefix = change->is_wildcard,
                                      .only_existing = rule->only_existing};

    if (!request_change_field(request, &what)) {
        log_error(&request->log, 0, "invalid host \"%.*s\" in more_set_input_headers",
                  STR_ARG(what.value));
    }
}

static enum handler_result change_inputs(struct request *request)
{
    vec_each(const struct rule, rule, &headers_more_settings_at(request->location)->input) {
        const struct field *type = fields_get(&request->headers, FIELD_CONTENT_TYPE);

        if (!lists_type(rule, type == NULL ? STR_NONE : type->value)) {
            continue;
        }
        vec_each(const struct change, change, &rule->changes) {
            change_input(request, rule, change);
        }
    }
    return HANDLER_NEXT;
}

/* ---- while the configuration is read ---- */

/* Does any directive change requests? An `if` block may have one although its location has none. */
static bool has_input;

static bool has_input_lines(const struct conf_node *node)
{
    for (; node != NULL; node = node->next) {
        if ((node->count != 0 && (str_is(node->args[0], "more_set_input_headers") ||
                                  str_is(node->args[0], "more_clear_input_headers"))) ||
            (node->is_block && has_input_lines(node->children))) {
            return true;
        }
    }
    return false;
}

static bool headers_more_begin(struct conf *conf, struct http_main *main)
{
    has_input = has_input_lines(conf->root);
    return true;
}

static bool may_have_input(const struct http_location *location)
{
    return has_input;
}

/* A directive while it is read. */
struct reading {
    struct conf *conf;
    const struct conf_node *node;
    bool clears;
    bool is_input;
    struct rule rule;
};

static struct str headers_more_skip_blanks(struct str text)
{
    while (text.len != 0 && (*text.data == ' ' || *text.data == '\t')) {
        text = str_skip(text, 1);
    }
    return text;
}

/* Parses "name: value", "name value", "name:" or "name"; the last two remove the field. An entry
 * without a name is ignored. */
static bool read_change(struct reading *reading, struct str text)
{
    struct conf *conf = reading->conf;
    struct str rest = headers_more_skip_blanks(text);
    size_t length = 0;

    if (rest.len == 0 && text.len != 0) {
        return conf_error(conf, reading->node, "%.*s: no key found in the header argument: %.*s",
                          STR_ARG(reading->node->args[0]), STR_ARG(text));
    }
    while (length < rest.len && strchr(": \t", rest.data[length]) == NULL) {
        length++;
    }
    struct change change = {.name = str_head(rest, length)};
    struct str value = headers_more_skip_blanks(str_skip(rest, length));
    if (value.len != 0 && *value.data == ':') {
        value = headers_more_skip_blanks(str_skip(value, 1));
    }

    value = reading->clears ? STR_NONE : value;
    if (reading->clears || !reading->is_input) {
        change.is_wildcard = str_ends(change.name, STR("*"));
        change.name.len -= change.is_wildcard;
        if (change.is_wildcard && change.name.len == 0) {
            return conf_error(conf, reading->node, "%.*s: wildcard key too short: %.*s",
                              STR_ARG(reading->node->args[0]), STR_ARG(text));
        }
    }
    if (change.name.len == 0) {
        return true;
    }
    change.id = field_identify(change.name);
    if (value.len != 0) {
        change.value = template_compile(conf, reading->node, value);
        if (change.value == NULL) {
            return false;
        }
        if (change.value->is_constant) {
            change.constant = field_value_safe(conf->arena, change.value->constant);
        }
    }
    if (reading->rule.appends && (FIELD_BIT(change.id) & RESPONSE_FIELDS_ONCE) != 0) {
        return conf_error(conf, reading->node, "%.*s: can not append builtin headers \"%.*s\"",
                          STR_ARG(reading->node->args[0]), STR_ARG(change.name));
    }
    if (!reading->is_input && change.id == FIELD_TRANSFER_ENCODING) {
        conf_warn(conf, reading->node,
                  "\"%.*s\" of responses follows from their bodies: it is left as it is",
                  STR_ARG(change.name));
    }
    *vec_add(&reading->rule.changes, conf->arena, struct change) = change;
    return true;
}

/* Cuts off the next item of a list; empty between two separators. Types may be separated by ";" as
 * well. */
static struct str cut_word(struct str *rest, bool are_statuses)
{
    struct str word = *rest;
    size_t len = 0;

    while (len < word.len && word.data[len] != ' ' && word.data[len] != '\t' &&
           (are_statuses || word.data[len] != ';')) {
        len++;
    }
    *rest = len < word.len ? str_skip(word, len + 1) : STR_NONE;
    return str_head(word, len);
}

/* Reads items separated by spaces. */
static bool read_list(struct reading *reading, struct str text, bool are_statuses)
{
    struct conf *conf = reading->conf;
    struct str rest = text;

    while (rest.data != NULL) {
        struct str word = cut_word(&rest, are_statuses);
        uint64_t status;

        if (word.len == 0) {
            continue;
        }
        if (!are_statuses) {
            *vec_add(&reading->rule.types, conf->arena, struct str) = word;
            continue;
        }
        if (!parse_uint(word, &status)) {
            const char *bad = word.data;
            while (bad < word.data + word.len - 1 && ascii_is_digit((unsigned char) *bad)) {
                bad++;
            }
            return conf_error(conf, reading->node,
                              "%.*s: invalid digit \"%c\" found in the status code list \"%.*s\"",
                              STR_ARG(reading->node->args[0]), *bad, STR_ARG(text));
        }
        *vec_add(&reading->rule.statuses, conf->arena, uint64_t) = status;
    }
    return true;
}

/* Reads the option in argument *at, which is advanced if the option has an argument. */
static bool read_option(struct reading *reading, unsigned *at)
{
    const struct conf_node *node = reading->node;
    struct str option = node->args[*at];
    bool is_status = str_is(option, "-s") && !reading->is_input;

    if (is_status || str_is(option, "-t")) {
        if (*at + 1 == node->count) {
            return conf_error(reading->conf, node, "%.*s: option %.*s takes an argument.",
                              STR_ARG(node->args[0]), STR_ARG(option));
        }
        return read_list(reading, node->args[++*at], is_status);
    }
    if (str_is(option, "-r") && reading->is_input) {
        reading->rule.only_existing = true;
        return true;
    }
    if (str_is(option, "-a") && !reading->is_input && !reading->clears) {
        reading->rule.appends = true;
        return true;
    }
    return conf_error(reading->conf, node, "%.*s: invalid option name: \"%.*s\"",
                      STR_ARG(node->args[0]), STR_ARG(option));
}

/* Options may be anywhere, and apply to the whole directive. */
static bool headers_more_read_line(struct reading *reading)
{
    const struct conf_node *node = reading->node;
    struct vec texts = {0};

    for (unsigned i = 1; i < node->count; i++) {
        if (node->args[i].len == 0 || *node->args[i].data != '-') {
            *vec_add(&texts, reading->conf->arena, struct str) = node->args[i];
        } else if (!read_option(reading, &i)) {
            return false;
        }
    }
    vec_each(const struct str, text, &texts) {
        if (!read_change(reading, *text)) {
            return false;
        }
    }
    return true;
}

static bool line_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct headers_more_settings *more = settings;
    struct str name = node->args[0];
    struct reading reading = {
        .conf = scope->conf,
        .node = node,
        .clears = str_starts(name, STR("more_clear")),
        .is_input = str_ends(name, STR("input_headers")),
    };
    struct vec *rules = reading.is_input ? &more->input : &more->output;

    if (!headers_more_read_line(&reading)) {
        return false;
    }
    *rules = vec_copy(rules, scope->conf->arena,
                      sizeof(struct rule)); /* the list still belongs to the outer block */
    *vec_add(rules, scope->conf->arena, struct rule) = reading.rule;
    return true;
}

#define IN_ALL_AND_IF IN_HTTP_ALL | IN_LOCATION_IF
static const struct directive headers_more_rows[] = {
    {"more_set_headers", IN_ALL_AND_IF, CUSTOM(line_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_CUSTOM,
     .syntax = "[-t \"type ...\"] [-s \"status ...\"] [-a] \"name[: value]\" ...",
     .doc = "Sets fields of responses, which replaces existing ones; without a value, the "
            "fields are removed. `-s` and `-t` limit it to responses with these status "
            "codes and media types, `-a` adds fields to existing ones. A name that ends "
            "with `*` matches all fields with this prefix: the first one gets the value, "
            "the others are removed. Directives of outer blocks also apply, before those "
            "of inner ones."},
    {"more_clear_headers", IN_ALL_AND_IF, CUSTOM(line_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_CUSTOM, .syntax = "[-t \"type ...\"] [-s \"status ...\"] name ...",
     .doc = "Removes fields of responses. A name that ends with `*` matches all fields "
            "with this prefix, except those that the server generates, such as Server and "
            "Date."},
    {"more_set_input_headers", IN_ALL_AND_IF, CUSTOM(line_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_CUSTOM, .syntax = "[-r] [-t \"type ...\"] \"name[: value]\" ...",
     .doc = "Sets fields of requests at the end of the rewrite phase, which replaces "
            "existing ones; without a value, the fields are removed. `-r` replaces "
            "existing fields only, `-t` limits it to requests with these values of "
            "Content-Type."},
    {"more_clear_input_headers", IN_ALL_AND_IF, CUSTOM(line_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_CUSTOM, .syntax = "[-t \"type ...\"] name ...",
     .doc = "Removes fields of requests at the end of the rewrite phase. A name that ends "
            "with `*` matches all fields with this prefix."},
    {0},
};

static const struct phase_hook headers_more_phases[] = {
    {.phase = PHASE_REWRITE,
     .name = "headers_more",
     .run = change_inputs,
     .is_active = may_have_input},
    {.run = NULL},
};
static const struct filter_hook headers_more_filters[] = {
    {.name = "headers_more",
     .before = "srcache",
     .run = headers_more_filter,
     .when = SETTING(headers_more_key, struct headers_more_settings, output.count)},
    {.run = NULL},
};
static const struct http_module headers_more_hooks = {
    .phases = headers_more_phases,
    .filters = headers_more_filters,
    .begin = headers_more_begin,
};

const struct module ngx_http_headers_more_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_headers_more_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &headers_more_key,
              .rows = headers_more_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct headers_more_settings)},
    .hooks = &headers_more_hooks,
};
