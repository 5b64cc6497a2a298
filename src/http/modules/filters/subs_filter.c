/* ngx_http_subs_filter_module: replaces strings and regular expressions in the lines of response
 * bodies. */
#include "base/buf.h"
#include "base/parse.h"
#include "conf/regex.h"
#include "http/client/connection.h"
#include "http/files/file.h"
#include "http/message/type_set.h"
#include "http/request/gather.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "server/generation.h"
#include "server/module.h"

#define LINE_MAX_DEFAULT (1024 * 1024) /* longest line in bytes; a longer one is split */
/* Most bytes that one rule may produce from a line. */
#define RESULT_MAX ((size_t) 16 * 1024 * 1024)

/* One subs_filter directive. */
struct subs_rule {
    struct str pattern;     /* a string, if there is no regex */
    struct regex *regex;    /* or NULL */
    struct template *value; /* the replacement; $1 to $9 are groups of the regex */
    bool is_nocase;
    bool is_once; /* only the first match in a response */
};

struct subs_settings {
    struct vec rules;  /* struct subs_rule, in order */
    struct vec bypass; /* struct template *: if one of them is true, nothing is replaced */
    struct type_set *types;
    uint64_t line_max; /* bytes; 0 = the default */
};

static struct settings_key subs_key;

TYPED_SETTINGS(subs_filter_settings_at, struct subs_settings, subs_key, struct http_location)

/* ---- the body ---- */

/* Per response, in the request's arena. */
struct subs_filter {
    struct body_filter filter;
    const struct subs_settings *settings;
    struct gather output;
    struct buf held;      /* a line whose end has not come yet */
    struct buf lines[2];  /* input and output of a rule, alternating */
    size_t counted;       /* bytes of these three buffers that count towards request_memory_limit */
    struct arena scratch; /* groups of one match */
    const struct str *captures; /* the request's own captures, restored between matches */
    unsigned capture_count;
    /* By rule: the values of its variables; NULL = not evaluated yet. */
    struct str **values;
    bool *is_spent;      /* by rule: it replaces once, and has done so */
    bool is_over_logged; /* the message about a line that is too long was logged */
};

static void free_buffers(void *arg)
{
    struct subs_filter *subs = arg;

    buf_free(&subs->held);
    buf_free(&subs->lines[0]);
    buf_free(&subs->lines[1]);
    arena_free(&subs->scratch);
}

static const char *find_nocase(struct str text, struct str pattern)
{
    unsigned char first = ascii_lower((unsigned char) *pattern.data);

    for (; text.len >= pattern.len; text = str_skip(text, 1)) {
        if (ascii_lower((unsigned char) *text.data) == first && str_starts_nocase(text, pattern)) {
            return text.data;
        }
    }
    return NULL;
}

/* Restores the request's own captures and frees those of a match: a line may have as many matches
 * as bytes. */
static void forget_groups(struct subs_filter *subs, struct variable_env *env)
{
    env->captures = subs->captures;
    env->capture_count = subs->capture_count;
    arena_free(&subs->scratch);
}

/* Finds the first match of a rule in a text. Its groups stay in the request's environment until
 * forget_groups. */
static bool find(struct subs_filter *subs, struct request *request, const struct subs_rule *rule,
                 struct str text, struct str *match)
{
    struct variable_env *env = &request->env;
    struct arena *arena = env->arena;
    bool is_found;

    if (rule->regex == NULL) {
        const char *at =
            rule->is_nocase ? find_nocase(text, rule->pattern) : str_find(text, rule->pattern);
        *match = (struct str){at, rule->pattern.len};
        return at != NULL;
    }
    env->arena = &subs->scratch;
    is_found = regex_match(rule->regex, text, env, &request->log);
    env->arena = arena;
    if (is_found) {
        *match = env->captures[0];
    }
    return is_found;
}

/* Variables are evaluated at the first match and keep that value. */
static const struct str *values_of(struct subs_filter *subs, struct request *request, size_t number)
{
    const struct template *value = vec_at(&subs->settings->rules, struct subs_rule, number)->value;

    if (subs->values[number] == NULL) {
        struct str *values = arena_array(&request->arena, value->count + 1, sizeof(*values));
        for (unsigned i = 0; i < value->count; i++) {
            if (value->parts[i].kind == PART_VARIABLE) {
                variable_get(&request->env, value->parts[i].variable, &values[i]);
            }
        }
        subs->values[number] = values;
    }
    return subs->values[number];
}

static void put_value(struct subs_filter *subs, struct request *request, size_t number,
                      struct buf *out)
{
    const struct template *value = vec_at(&subs->settings->rules, struct subs_rule, number)->value;
    const struct variable_env *env = &request->env;

    if (value->is_constant) {
        buf_append(out, value->constant);
        return;
    }
    const struct str *values = values_of(subs, request, number);
    for (unsigned i = 0; i < value->count; i++) {
        const struct template_part *part = &value->parts[i];
        if (part->kind == PART_TEXT) {
            buf_append(out, part->text);
        } else if (part->kind == PART_VARIABLE) {
            buf_append(out, values[i]);
        } else if (part->capture < env->capture_count) {
            buf_append(out, env->captures[part->capture]);
        }
    }
}

/* The most bytes one rule may produce, less if request_memory_limit leaves less: a buffer may have
 * a capacity of twice its length. */
static size_t result_max(const struct subs_filter *subs, const struct request *request,
                         const struct buf *out)
{
    const struct arena_account *account = request->arena.account;
    size_t others = account->used - subs->counted + subs->held.capacity + subs->lines[0].capacity +
                    subs->lines[1].capacity - out->capacity;
    uint64_t left = account->limit > others ? account->limit - others : 0;

    return account->limit == 0 || left / 2 > RESULT_MAX ? RESULT_MAX : (size_t) left / 2;
}

/* Applies one rule. False: no match, nothing written. After the limit is reached, the remaining
 * text is copied unchanged. */
static bool apply_rule(struct subs_filter *subs, struct request *request, size_t number,
                       struct str text, struct buf *out)
{
    const struct subs_rule *rule = vec_at(&subs->settings->rules, struct subs_rule, number);
    size_t most = result_max(subs, request, out);
    bool is_found = false;
    struct str match;

    if (subs->is_spent[number]) {
        return false;
    }
    out->len = 0;
    while (text.len != 0 && !subs->is_spent[number] && out->len + text.len < most &&
           find(subs, request, rule, text, &match)) {
        size_t before = (size_t) (match.data - text.data);

        is_found = true;
        buf_append(out, str_head(text, before));
        put_value(subs, request, number, out);
        forget_groups(subs, &request->env);
        text = str_skip(text, before + match.len);
        if (match.len == 0 &&
            text.len != 0) { /* an empty match does not match again at the same position */
            buf_append(out, str_head(text, 1));
            text = str_skip(text, 1);
        }
        subs->is_spent[number] = rule->is_once;
    }
    if (is_found) {
        buf_append(out, text);
    }
    return is_found;
}

/* A slow client can keep these buffers in use for a long time. */
static void count_buffers(struct subs_filter *subs, struct request *request)
{
    size_t size = subs->held.capacity + subs->lines[0].capacity + subs->lines[1].capacity;

    request_count_memory(request, size - subs->counted);
    subs->counted = size;
}

/* Applies all rules to one line, each to the result of the one before. MAY WAIT. */
static bool put_line(struct subs_filter *subs, struct request *request, struct str line)
{
    unsigned out = 0;

    subs->captures = request->env.captures;
    subs->capture_count = request->env.capture_count;
    for (size_t i = 0; i < subs->settings->rules.count; i++) {
        if (apply_rule(subs, request, i, line, &subs->lines[out])) {
            line = buf_str(&subs->lines[out]);
            out = 1 - out;
        }
    }
    count_buffers(subs, request);
    return gather_put(&subs->output, request, line);
}

static uint64_t line_max(const struct subs_filter *subs)
{
    return subs->settings->line_max == 0 ? LINE_MAX_DEFAULT : subs->settings->line_max;
}

/* Holds a part of a line whose end has not come. A line that is too long is split in two. MAY
 * WAIT. */
static bool hold(struct subs_filter *subs, struct request *request, struct str part)
{
    bool is_sound = true;

    while (is_sound && subs->held.len + part.len > line_max(subs)) {
        struct str head = str_head(part, (size_t) line_max(subs) - subs->held.len);

        if (!subs->is_over_logged) {
            subs->is_over_logged = true;
            counters_mine->limited++;
            log_info(
                &request->log, 0,
                "a line is longer than subs_line_buffer_size, %llu bytes: it is taken for several",
                (unsigned long long) line_max(subs));
        }
        buf_append(&subs->held, head);
        part = str_skip(part, head.len);
        is_sound = put_line(subs, request, buf_str(&subs->held));
        subs->held.len = 0;
    }
    buf_append(&subs->held, part);
    return is_sound;
}

static bool put_lines(struct subs_filter *subs, struct request *request, struct str bytes)
{
    const char *end;
    bool is_sound = true;

    while (is_sound && (end = str_find_char(bytes, '\n')) != NULL) {
        struct str line = str_from(bytes.data, end + 1);

        bytes = str_skip(bytes, line.len);
        if (subs->held.len == 0 && line.len <= line_max(subs)) {
            is_sound = put_line(subs, request, line);
            continue;
        }
        is_sound = hold(subs, request, line) && put_line(subs, request, buf_str(&subs->held));
        subs->held.len = 0;
    }
    return is_sound && (bytes.len == 0 || hold(subs, request, bytes));
}

static bool subs_send(struct body_filter *filter, struct request *request,
                      const struct body_piece *piece, bool is_last)
{
    struct subs_filter *subs = container_of(filter, struct subs_filter, filter);
    bool is_flush = piece != NULL && piece->is_flush;
    bool is_sound = piece == NULL || put_lines(subs, request, piece->bytes);

    response_drop(piece);
    if (is_sound && is_last && subs->held.len != 0) {
        is_sound = put_line(subs, request, buf_str(&subs->held));
        subs->held.len = 0;
    }
    if (!is_sound || (subs->output.len == 0 && !is_flush && !is_last)) {
        return is_sound;
    }
    return gather_give(&subs->output, request, is_flush, is_last);
}

/* ---- the header ---- */

static void subs_header(struct request *request)
{
    const struct subs_settings *settings = subs_filter_settings_at(request->location);
    struct response *response = &request->response;
    size_t count = settings->rules.count;

    if (response->content_length == 0 || response->framing == FRAMING_TUNNEL ||
        !type_set_has(settings->types, response->content_type) ||
        fields_get(&response->fields, FIELD_CONTENT_ENCODING) != NULL ||
        templates_any_true(&settings->bypass, &request->env)) {
        return;
    }
    response_change_body(request, false);
    if (response->is_header_only) {
        return;
    }
    struct subs_filter *subs = arena_new(&request->arena, struct subs_filter);
    subs->filter.send = subs_send;
    subs->settings = settings;
    subs->output.filter = &subs->filter;
    subs->values = arena_array(&request->arena, count, sizeof(*subs->values));
    subs->is_spent = arena_array(&request->arena, count, sizeof(*subs->is_spent));
    arena_init(&subs->scratch);
    arena_on_free(&request->arena, free_buffers, subs);
    response_needs_memory(request);
    response_append_filter(request, &subs->filter);
}

/* ---- directives ---- */

static bool subs_filter_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct subs_settings *subs = settings;
    struct subs_rule rule = {.pattern = node->args[1]};
    bool is_regex = false;

    for (unsigned i = 3; i < node->count; i++) {
        for (size_t c = 0; c < node->args[i].len; c++) {
            char flag = node->args[i].data[c];
            if (flag != 'g' && flag != 'i' && flag != 'o' && flag != 'r') {
                conf_warn(scope->conf, node, "\"subs_filter\" has no flag \"%c\"", flag);
            }
            rule.is_nocase |= flag == 'i';
            rule.is_once |= flag == 'o';
            is_regex |= flag == 'r';
        }
    }
    if (!conf_value_template(scope, node, 2, &rule.value)) {
        return false;
    }
    if (is_regex) {
        rule.regex = regex_compile(scope->conf, node, rule.pattern, rule.is_nocase, false);
        if (rule.regex == NULL) {
            return false;
        }
    } else if (rule.pattern.len == 0) {
        conf_warn(scope->conf, node, "an empty text is nowhere replaced");
        return true;
    }
    *vec_add(&subs->rules, scope->conf->arena, struct subs_rule) = rule;
    return true;
}

/* A count and a size, which are multiplied; or a size alone. */
static bool line_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct subs_settings *subs = settings;
    uint64_t number = 1;
    uint64_t size;

    if ((node->count == 3 && !parse_size(node->args[1], &number)) ||
        !parse_size(node->args[node->count - 1], &size) || size == 0 || number == 0 ||
        size > (UINT64_C(1) << 30) / number) {
        return conf_error(scope->conf, node, "\"%s\" directive invalid value", row->name);
    }
    subs->line_max = number * size;
    return true;
}

#define S struct subs_settings
static const struct directive subs_rows[] = {
    {"subs_filter", IN_HTTP_ALL, CUSTOM_FIELD(S, rules, subs_filter_apply), ARGS(2, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "text replacement [flags]",
     .doc = "Replaces a text in each line of response bodies. Flags: `i` ignores case, `o` "
            "replaces only the first occurrence, `r` makes the text a regular expression, "
            "whose captures are $1 to $9 in the replacement. Several directives are "
            "applied in order."},
    {"subs_filter_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .initial = "text/html", .syntax = "mime-type ...",
     .doc = "Media types of responses that subs_filter changes, in addition to text/html; "
            "* matches any type."},
    {"subs_filter_bypass", IN_HTTP_ALL, TEMPLATES(S, bypass), .syntax = "string ...",
     .doc = "Disables replacement if at least one value is neither empty nor \"0\"."},
    {"subs_line_buffer_size", IN_HTTP_ALL, CUSTOM_FIELD(S, line_max, line_apply), ARGS(1, 2),
     .syntax = "[number] size",
     .doc = "Maximum length of a line, 1m by default. Longer lines are split, and a text "
            "that crosses the split is not found."},
    {"subs_buffers", IN_HTTP_ALL, OBSOLETE, ARGS(2, 2), .syntax = "number size",
     .doc = "Accepted and ignored: output is buffered in pieces of 16k."},
    {0},
};
#undef S

/* Before sub_filter, as in nginx. */
static const struct filter_hook subs_filters[] = {
    {.name = "subs",
     .before = "sub",
     .run = subs_header,
     .when = SETTING(subs_key, struct subs_settings, rules.count)},
    {.run = NULL},
};
static const struct http_module subs_hooks = {.filters = subs_filters};

const struct module ngx_http_subs_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_subs_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &subs_key,
              .rows = subs_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct subs_settings)},
    .hooks = &subs_hooks,
};
