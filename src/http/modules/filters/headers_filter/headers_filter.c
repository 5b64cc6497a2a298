/* ngx_http_headers_filter_module: add_header, add_trailer, expires, and Tengine's append_header and
 * expires_by_types. */
#include "base/clock.h"
#include "base/parse.h"
#include "http/request/body_filter.h"
#include "http/request/wire.h"
#include "http/routing/hooks.h"
#include "http/modules/filters/headers_filter/expires.h"
#include "http/request/request.h"
#include "http/routing/response_settings.h"
#include "server/module.h"

/* One add_header or add_trailer. */
struct header_rule {
    struct str name;
    enum field_id id;
    struct template *value;
    bool is_always;   /* for all status codes, not only those of success and redirects */
    bool is_appended; /* append_header: the value is appended to an existing field of that name */
};

/* A value of expires. */
struct expires_rule {
    struct expires fixed;
    struct template *text; /* with variables, parsed for each response; NULL = fixed */
    bool is_modified;
    struct expires_texts *texts; /* set for a fixed number of seconds from now; else NULL */
};

/* The two fields for a fixed number of seconds from now; per worker, renewed every second. */
struct expires_texts {
    struct str cache_control;
    time_t second; /* the second for which the date is valid */
    char date[HTTP_DATE_LENGTH];
};

/* expires_by_types: a rule for one media type. */
struct type_rule {
    struct str type; /* "text/html", or "text/" for all of its subtypes */
    bool is_family;
    struct expires_rule rule;
};

struct headers_settings {
    struct vec own_headers; /* struct header_rule: written in this block */
    struct vec own_trailers;
    struct vec headers; /* struct header_rule: in effect here, after inheritance */
    struct vec trailers;
    struct str separator;    /* append_header_separator */
    unsigned header_inherit; /* an enum list_inherit */
    unsigned trailer_inherit;
    struct expires_rule expires;
    struct vec types; /* struct type_rule */
};

static struct settings_key headers_key;

TYPED_SETTINGS(headers_filter_settings_at, struct headers_settings, headers_key,
               struct http_location)

/* Is it one of the status codes to which fields are added without `always`? */
static bool is_usual_status(unsigned status)
{
    switch (status) {
    case 200:
    case 201:
    case 204:
    case 206:
    case 301:
    case 302:
    case 303:
    case 304:
    case 307:
    case 308:
        return true;
    default:
        return false;
    }
}

/* ---- values ---- */

static struct str rule_value(struct request *request, const struct header_rule *rule)
{
    return field_value_safe(&request->arena, template_text(rule->value, &request->env));
}

/* ---- expires ---- */

static const struct expires_rule *rule_for_type(const struct headers_settings *settings,
                                                struct str content_type)
{
    struct str rest = content_type;
    struct str type = str_trim(str_cut(&rest, ';'));
    const struct expires_rule *family = NULL;

    vec_each(const struct type_rule, rule, &settings->types) {
        if (!rule->is_family && str_equal_nocase(rule->type, type)) {
            return &rule->rule;
        }
        if (rule->is_family && family == NULL && str_starts_nocase(type, rule->type)) {
            family = &rule->rule;
        }
    }
    return family;
}

/* The value of the rule for this response; a malformed one counts as off. */
static struct expires expires_of(struct request *request, const struct expires_rule *rule)
{
    struct expires expires;

    if (rule->text == NULL) {
        return rule->fixed;
    }
    if (expires_parse(template_text(rule->text, &request->env), rule->is_modified, &expires) !=
        NULL) {
        expires.kind = EXPIRES_OFF;
    }
    return expires;
}

static void set_expires(struct request *request, struct str date, struct str cache_control)
{
    struct fields *fields = &request->response.fields;

    fields_set(fields, &request->arena, FIELD_EXPIRES, date);
    fields_set(fields, &request->arena, FIELD_CACHE_CONTROL, cache_control);
}

static struct str control_text(struct arena *arena, int64_t max_age)
{
    char text[40] = "max-age=";

    if (max_age < 0) {
        return STR("no-cache");
    }
    return arena_dup(arena, str_from(text, format_uint(text + 8, (uint64_t) max_age)));
}

/* A copy, because the log may use it in a later second. */
static struct str copy_date(struct arena *arena, const char *date)
{
    return arena_dup(arena, (struct str){date, HTTP_DATE_LENGTH});
}

/* The common case: only the date changes, once a second. */
static void add_fixed(struct request *request, const struct expires_rule *rule)
{
    struct expires_texts *texts = rule->texts;

    if (texts->second != clock_now.seconds) {
        texts->second = clock_now.seconds;
        http_date_format(texts->date, clock_now.seconds + rule->fixed.seconds);
    }
    set_expires(request, copy_date(&request->arena, texts->date), texts->cache_control);
}

static void add_expires(struct request *request, const struct expires_rule *rule)
{
    struct expires expires = expires_of(request, rule);
    char date[HTTP_DATE_LENGTH];
    time_t when;
    int64_t max_age;

    if (rule->texts != NULL) {
        add_fixed(request, rule);
        return;
    }
    switch (expires.kind) {
    case EXPIRES_OFF:
        return;
    case EXPIRES_EPOCH:
        set_expires(request, STR("Thu, 01 Jan 1970 00:00:01 GMT"), STR("no-cache"));
        return;
    case EXPIRES_MAX:
        set_expires(request, STR("Thu, 31 Dec 2037 23:55:55 GMT"), STR("max-age=315360000"));
        return;
    default:
        break;
    }
    expires_compute(&expires, clock_now.seconds, request->response.last_modified, &when, &max_age);
    http_date_format(date, when);
    set_expires(request, copy_date(&request->arena, date), control_text(&request->arena, max_age));
}

/* ---- add_header ---- */

/* Appends the value to an existing field of that name. False: there is none. */
static bool append_value(struct request *request, struct str name, struct str value)
{
    struct field *field = fields_find(&request->response.fields, name);

    if (field == NULL) {
        return false;
    }
    const struct str parts[] = {field->value,
                                headers_filter_settings_at(request->location)->separator, value};
    field->value = arena_join(&request->arena, parts, value.len == 0 ? 1 : 3);
    return true;
}

static void add_header(struct request *request, const struct header_rule *rule)
{
    struct response *response = &request->response;
    struct str value = rule_value(request, rule);

    if (rule->is_appended && append_value(request, rule->name, value)) {
        return;
    }

    if (rule->id == FIELD_ETAG) {
        response->etag = value;
        return;
    }
    if (rule->id == FIELD_LAST_MODIFIED) {
        response->last_modified = -1;
    }
    if (value.len != 0) {
        fields_add_identified(&response->fields, &request->arena, rule->id, rule->name, value)
            ->is_added = true;
    }
}

/* ---- add_trailer ---- */

/* Evaluates the trailers with the last piece of the body, so that they have the values of that
 * time. */
struct trailer_filter {
    struct body_filter filter;
    const struct vec *rules; /* struct header_rule; of the generation */
    bool is_usual;           /* the status allows trailers without `always` */
};

static void lay_out_trailers(struct request *request, const struct trailer_filter *trailer)
{
    struct response *response = &request->response;

    vec_each(const struct header_rule, rule, trailer->rules) {
        if (!trailer->is_usual && !rule->is_always) {
            continue;
        }
        struct str value = rule_value(request, rule);
        if (value.len == 0) {
            continue;
        }
        if (response->trailers == NULL) {
            response->trailers = arena_new(&request->arena, struct fields);
        }
        fields_add(response->trailers, &request->arena, rule->name, value);
    }
}

static bool trailer_send(struct body_filter *filter, struct request *request,
                         const struct body_piece *piece, bool is_last)
{
    if (is_last) {
        lay_out_trailers(request, container_of(filter, struct trailer_filter, filter));
    }
    return body_filter_next(filter, request, piece, is_last);
}

/* Trailers require chunks (RFC 9112, 7.1.2), so the response must not have a Content-Length. */
static bool can_have_trailers(const struct request *request)
{
    const struct response *response = &request->response;

    return request->head.version >= HTTP_1_1 &&
           request->location->responses->chunked_transfer_encoding && !response->is_header_only &&
           response->status >= 200 && response->status != 204 && response->status != 304;
}

static bool has_trailers(const struct request *request)
{
    bool is_usual = is_usual_status(request->response.status);

    vec_each(const struct header_rule, rule,
             &headers_filter_settings_at(request->location)->trailers) {
        if (is_usual || rule->is_always) {
            return can_have_trailers(request);
        }
    }
    return false;
}

static void add_trailer_filter(struct request *request, const struct headers_settings *settings)
{
    struct trailer_filter *trailer = arena_new(&request->arena, struct trailer_filter);

    trailer->filter.send = trailer_send;
    trailer->filter.takes_files = true;
    trailer->rules = &settings->trailers;
    trailer->is_usual = is_usual_status(request->response.status);
    response_add_filter(request, &trailer->filter);
}

/* ---- the filters ---- */

static void filter_headers(struct request *request)
{
    const struct headers_settings *settings = headers_filter_settings_at(request->location);
    bool is_usual = is_usual_status(request->response.status);

    if (request != request->main) {
        return;
    }
    if (is_usual) {
        const struct expires_rule *rule =
            settings->types.count == 0 ? NULL
                                       : rule_for_type(settings, request->response.content_type);
        add_expires(request, rule != NULL ? rule : &settings->expires);
    }
    vec_each(const struct header_rule, rule, &settings->headers) {
        if (is_usual || rule->is_always) {
            add_header(request, rule);
        }
    }
    if (settings->trailers.count != 0 && has_trailers(request)) {
        add_trailer_filter(request, settings);
    }
}

/* Runs after ranges were selected, which need the length. HTTP/1 sends trailers only with chunks;
 * HTTP/2 and HTTP/3 send them with a length as well. */
static void filter_length(struct request *request)
{
    struct response *response = &request->response;

    if (request == request->main && has_trailers(request) &&
        (!request->wire->is_multiplexed || response->content_length == 0)) {
        response->content_length = -1;
    }
}

/* Evaluated before inherited and own fields were combined, so both are considered. */
static bool headers_filter_is_active(const struct http_location *location)
{
    const struct headers_settings *settings = headers_filter_settings_at(location);

    return settings->headers.count != 0 || settings->own_headers.count != 0 ||
           settings->trailers.count != 0 || settings->own_trailers.count != 0 ||
           settings->types.count != 0 || settings->expires.text != NULL ||
           settings->expires.fixed.kind != EXPIRES_OFF;
}

static bool has_trailer_rules(const struct http_location *location)
{
    const struct headers_settings *settings = headers_filter_settings_at(location);

    return settings->trailers.count != 0 || settings->own_trailers.count != 0;
}

/* ---- while the configuration is read ---- */

static bool field_apply(struct conf_scope *scope, const struct conf_node *node, struct vec *rules)
{
    struct conf *conf = scope->conf;
    struct header_rule rule = {
        .name = node->args[1],
        .id = field_identify(node->args[1]),
        .is_always = node->count == 4,
    };

    if (node->count == 4 && !str_is(node->args[3], "always")) {
        return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[3]));
    }
    rule.value = template_compile(conf, node, node->args[2]);
    if (rule.value == NULL) {
        return false;
    }
    *vec_add(rules, conf->arena, struct header_rule) = rule;
    return true;
}

static bool add_header_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    return field_apply(scope, node, &((struct headers_settings *) settings)->own_headers);
}

/* Added to the list of add_header, in order. */
static bool append_header_apply(struct conf_scope *scope, const struct directive *row,
                                struct conf_node *node, void *settings)
{
    struct vec *rules = &((struct headers_settings *) settings)->own_headers;

    if (!field_apply(scope, node, rules)) {
        return false;
    }
    vec_at(rules, struct header_rule, rules->count - 1)->is_appended = true;
    return true;
}

static bool add_trailer_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    return field_apply(scope, node, &((struct headers_settings *) settings)->own_trailers);
}

/* Parses "[modified] time" from the first arguments and returns how many it used; 0 after
 * conf_error. */
static unsigned parse_expires(struct conf_scope *scope, const struct conf_node *node,
                              unsigned count, const char *name, struct expires_rule *rule)
{
    struct conf *conf = scope->conf;
    bool is_modified = count == 2;
    struct str text = node->args[count];

    if (is_modified && !str_is(node->args[1], "modified")) {
        conf_error(conf, node, "\"%s\" directive invalid value", name);
        return 0;
    }
    rule->is_modified = is_modified;
    if (template_variable_count(text) != 0) {
        rule->text = template_compile(conf, node, text);
        return rule->text == NULL ? 0 : count;
    }
    const char *error = expires_parse(text, is_modified, &rule->fixed);
    if (error != NULL) {
        conf_error(conf, node, "\"%s\" directive %s", name, error);
        return 0;
    }
    if (rule->fixed.kind == EXPIRES_AFTER) {
        rule->texts = arena_new(conf->arena, struct expires_texts);
        rule->texts->cache_control = control_text(conf->arena, rule->fixed.seconds);
        rule->texts->second = -1;
    }
    return count;
}

static bool expires_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct expires_rule *rule = &((struct headers_settings *) settings)->expires;

    *rule = (struct expires_rule){0};
    return parse_expires(scope, node, node->count - 1, row->name, rule) != 0;
}

static bool expires_by_types_apply(struct conf_scope *scope, const struct directive *row,
                                   struct conf_node *node, void *settings)
{
    struct headers_settings *headers = settings;
    struct expires_rule rule = {0};
    unsigned words = str_is(node->args[1], "modified") ? 2 : 1;

    if (node->count < words + 2) {
        return conf_error(scope->conf, node, "invalid number of arguments in \"%s\" directive",
                          row->name);
    }
    if (parse_expires(scope, node, words, row->name, &rule) == 0) {
        return false;
    }
    for (unsigned i = words + 1; i < node->count; i++) {
        struct str type = node->args[i];
        struct type_rule *item = vec_add(&headers->types, scope->conf->arena, struct type_rule);

        item->is_family = str_ends(type, STR("/*"));
        item->type = item->is_family ? str_head(type, type.len - 1) : type;
        item->rule = rule;
    }
    return true;
}

/* Combines the inherited rules and those of this block; with "merge" its own come first. */
static void join_rules(struct arena *arena, struct vec *holds, const struct vec *own,
                       unsigned inherit)
{
    if (inherit == LIST_INHERIT_MERGE && holds->count != 0 && own->count != 0) {
        struct vec both = vec_copy(own, arena, sizeof(struct header_rule));
        vec_each(const struct header_rule, rule, holds) {
            *vec_add(&both, arena, struct header_rule) = *rule;
        }
        *holds = both;
    } else if (own->count != 0 || inherit == LIST_INHERIT_OFF) {
        *holds = *own;
    }
}

static bool headers_finish(struct conf_scope *scope, void *settings)
{
    struct headers_settings *headers = settings;
    struct arena *arena = scope->conf->arena;

    join_rules(arena, &headers->headers, &headers->own_headers, headers->header_inherit);
    join_rules(arena, &headers->trailers, &headers->own_trailers, headers->trailer_inherit);
    /* An expires of this block takes precedence over inherited types. */
    if (conf_is_set(scope, &headers_key, "expires") &&
        !conf_is_set(scope, &headers_key, "expires_by_types")) {
        headers->types = (struct vec){0};
    }
    return true;
}

static void headers_fresh(void *settings)
{
    struct headers_settings *headers = settings;

    headers->own_headers = (struct vec){0};
    headers->own_trailers = (struct vec){0};
}

#define IN_ALL_AND_IF IN_HTTP_ALL | IN_LOCATION_IF
#define L struct headers_settings
static const struct directive headers_rows[] = {
    {"add_header", IN_ALL_AND_IF, CUSTOM(add_header_apply), ARGS(2, 3), .repeat = REPEAT_CUSTOM,
     .syntax = "name value [always]",
     .doc = "Adds a field to responses with status codes 200, 201, 204, 206, 301, 302, "
            "303, 304, 307 and 308; with `always`, to all responses."},
    {"add_header_inherit", IN_ALL_AND_IF, ENUM(L, header_inherit, list_inherit_words),
     .initial = "on",
     .doc = "Whether the add_header directives of a block replace those of outer blocks "
            "(`on`) or precede them (`merge`); with `off`, none are inherited."},
    {"append_header", IN_ALL_AND_IF, CUSTOM(append_header_apply), ARGS(2, 2),
     .repeat = REPEAT_CUSTOM, .syntax = "name value",
     .doc = "Appends the value to the field with this name, or adds the field if the "
            "response has none. It is processed in order with the add_header directives, "
            "for the same status codes."},
    {"append_header_separator", IN_ALL_AND_IF, STRING(L, separator), .initial = "\", \"",
     .doc = "String that append_header inserts between the values."},
    {"add_trailer", IN_ALL_AND_IF, CUSTOM(add_trailer_apply), ARGS(2, 3), .repeat = REPEAT_CUSTOM,
     .syntax = "name value [always]",
     .doc = "Adds a trailer field after the body of responses, for the same status codes "
            "as add_header."},
    {"add_trailer_inherit", IN_ALL_AND_IF, ENUM(L, trailer_inherit, list_inherit_words),
     .initial = "on", .doc = "Same as add_header_inherit, for add_trailer."},
    {"expires", IN_ALL_AND_IF, CUSTOM_FIELD(L, expires, expires_apply), ARGS(1, 2),
     .initial = "off", .syntax = "[modified] time | @time | epoch | max | off",
     .doc = "Adds the fields Expires and Cache-Control."},
    {"expires_by_types", IN_ALL_AND_IF, CUSTOM_FIELD(L, types, expires_by_types_apply),
     ARGS(2, ARGS_ANY), .repeat = REPEAT_APPEND,
     .syntax = "[modified] time | @time | epoch | max | off type ...",
     .doc = "Same as expires, for responses with these media types; \"text/*\" matches all "
            "subtypes."},
    {0},
};
#undef L

static const struct filter_hook headers_filters[] = {
    {.name = "headers", .run = filter_headers, .is_active = headers_filter_is_active},
    {.name = "length", .run = filter_length, .is_active = has_trailer_rules},
    {.run = NULL},
};

static const struct http_module headers_hooks = {.filters = headers_filters};

const struct module ngx_http_headers_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_headers_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &headers_key,
              .rows = headers_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct headers_settings),
              .finish = headers_finish,
              .fresh = headers_fresh},
    .hooks = &headers_hooks,
};
