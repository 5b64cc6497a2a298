/* ngx_http_sub_filter_module: replaces strings in response bodies. */
#include "http/files/file.h"
#include "http/request/body_filter.h"
#include "http/request/gather.h"
#include "http/routing/hooks.h"
#include "http/modules/filters/sub/search.h"
#include "http/request/request.h"
#include "http/message/type_set.h"
#include "server/module.h"

/* One sub_filter directive. */
struct rule {
    struct template *pattern;
    struct template *replacement;
};

struct sub_settings {
    struct vec rules; /* struct rule, in order */
    struct type_set *types;
    bool is_once; /* replace only the first match of each pattern */
    bool keeps_last_modified;
    /* Of the patterns; NULL: some have variables, or there are none. */
    const struct search_set *set;
    /* rules.items from which `set` was compiled: blocks that inherit both do not compile it
     * again. */
    const void *set_of;
};

static struct settings_key sub_key;

TYPED_SETTINGS(sub_settings_at, struct sub_settings, sub_key, struct http_location)

/* ---- the body ---- */

/* Per response, in the request's arena. */
struct sub_filter {
    struct body_filter filter;
    const struct sub_settings *settings;
    struct search search;
    struct str *replacements; /* by rule; data NULL = not evaluated yet */
    struct gather output;
};

/* Writes the replacement of a match. MAY WAIT. */
static bool replace(struct sub_filter *sub, struct request *request, unsigned pattern)
{
    struct str *replacement = &sub->replacements[pattern];

    if (replacement->data == NULL) {
        const struct rule *rule = vec_at(&sub->settings->rules, struct rule, pattern);
        *replacement = template_text(rule->replacement, &request->env);
    }
    if (sub->settings->is_once) {
        search_drop(&sub->search, pattern);
    }
    return gather_put(&sub->output, request, *replacement);
}

/* A piece without matches, the usual case, is passed on unchanged; others are rebuilt. */
static bool sub_send(struct body_filter *filter, struct request *request,
                     const struct body_piece *piece, bool is_last)
{
    struct sub_filter *sub = container_of(filter, struct sub_filter, filter);
    struct str bytes = piece == NULL ? STR_NONE : piece->bytes;
    bool is_flush = piece != NULL && piece->is_flush;
    bool is_sound = true;
    enum search_event event;
    struct str text;
    unsigned pattern;

    search_feed(&sub->search, bytes, is_last);
    event = search_next(&sub->search, &text, &pattern);
    if (event == SEARCH_TEXT && text.data == bytes.data && text.len == bytes.len) {
        search_next(&sub->search, &text, &pattern);
        return body_filter_next(filter, request, piece, is_last);
    }
    while (is_sound && event != SEARCH_MORE) {
        is_sound = event == SEARCH_TEXT ? gather_put(&sub->output, request, text)
                                        : replace(sub, request, pattern);
        event = search_next(&sub->search, &text, &pattern);
    }
    response_drop(piece);
    if (!is_sound) {
        return false;
    }
    if (sub->output.len == 0 && !is_flush && !is_last) {
        return true;
    }
    return gather_give(&sub->output, request, is_flush, is_last);
}

/* ---- the header ---- */

static const struct search_set *make_set(const struct vec *rules, struct arena *arena,
                                         struct variable_env *env)
{
    struct str *patterns = arena_array(arena, rules->count, sizeof(*patterns));

    for (size_t i = 0; i < rules->count; i++) {
        const struct template *pattern = vec_at(rules, struct rule, i)->pattern;
        patterns[i] = pattern->is_constant ? pattern->constant : template_eval(pattern, env);
    }
    return search_set_make(arena, patterns, (unsigned) rules->count);
}

static void sub_header(struct request *request)
{
    const struct sub_settings *settings = sub_settings_at(request->location);
    struct response *response = &request->response;

    if (response->content_length == 0 || response->framing == FRAMING_TUNNEL ||
        !type_set_has(settings->types, response->content_type)) {
        return;
    }
    const struct search_set *set = settings->set;
    if (set == NULL) {
        set = make_set(&settings->rules, &request->arena, &request->env);
    }
    if (search_set_count(set) == 0) {
        return;
    }
    response_change_body(request, settings->keeps_last_modified);
    if (response->is_header_only) {
        return;
    }
    struct sub_filter *sub = arena_new(&request->arena, struct sub_filter);
    sub->filter.send = sub_send;
    sub->output.filter = &sub->filter;
    sub->settings = settings;
    sub->replacements =
        arena_array(&request->arena, settings->rules.count, sizeof(*sub->replacements));
    search_begin(&sub->search, &request->arena, set);
    response_needs_memory(request);
    response_append_filter(request, &sub->filter);
}

/* ---- directives ---- */

static bool sub_filter_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *arg)
{
    struct sub_settings *settings = arg;
    struct rule rule;

    if (node->args[1].len == 0) {
        return conf_error(scope->conf, node, "empty search pattern");
    }
    if (settings->rules.count == SEARCH_PATTERNS_MAX) {
        return conf_error(scope->conf, node, "number of search patterns exceeds %d",
                          SEARCH_PATTERNS_MAX);
    }
    if (!conf_value_template(scope, node, 1, &rule.pattern) ||
        !conf_value_template(scope, node, 2, &rule.replacement)) {
        return false;
    }
    *vec_add(&settings->rules, scope->conf->arena, struct rule) = rule;
    return true;
}

/* Patterns without variables are compiled once for a location and those that inherit them. */
static bool sub_finish(struct conf_scope *scope, void *arg)
{
    struct sub_settings *settings = arg;

    if (settings->set_of == settings->rules.items) {
        return true;
    }
    settings->set_of = settings->rules.items;
    settings->set = NULL;
    vec_each(const struct rule, rule, &settings->rules) {
        if (!rule->pattern->is_constant) {
            return true;
        }
    }
    settings->set = make_set(&settings->rules, scope->conf->arena, NULL);
    return true;
}

#define S struct sub_settings
static const struct directive sub_rows[] = {
    {"sub_filter", IN_HTTP_ALL, CUSTOM_FIELD(S, rules, sub_filter_apply), ARGS(2, 2),
     .repeat = REPEAT_APPEND, .syntax = "string replacement",
     .doc = "Replaces a string in response bodies; the case of ASCII letters is ignored. "
            "If several directives match, the match that begins first is replaced; at the "
            "same position, the first directive applies. Both parameters may contain "
            "variables."},
    {"sub_filter_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .initial = "text/html", .syntax = "mime-type ...",
     .doc = "Media types of responses that sub_filter changes, in addition to text/html; * "
            "matches any type."},
    {"sub_filter_once", IN_HTTP_ALL, FLAG(S, is_once), .initial = "on",
     .doc = "Whether only the first occurrence of each string is replaced."},
    {"sub_filter_last_modified", IN_HTTP_ALL, FLAG(S, keeps_last_modified), .initial = "off",
     .doc = "Whether Last-Modified and, as a weak one, ETag of responses that sub_filter "
            "processes are kept."},
    {0},
};
#undef S

static const struct filter_hook sub_filters[] = {
    {.name = "sub", .run = sub_header, .when = SETTING(sub_key, struct sub_settings, rules.count)},
    {.run = NULL},
};
static const struct http_module sub_hooks = {.filters = sub_filters};

const struct module ngx_http_sub_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_sub_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &sub_key,
              .rows = sub_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct sub_settings),
              .finish = sub_finish},
    .hooks = &sub_hooks,
};
