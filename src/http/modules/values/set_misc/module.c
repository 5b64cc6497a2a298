/* ngx_http_set_misc_module: variables that are computed among the directives of the rewrite
 * module. */
#include "base/checksum.h"
#include "base/parse.h"
#include "http/modules/values/set_misc/set_misc.h"
#include "http/modules/values/set_misc/text.h"
#include "http/request/request.h"
#include "server/module.h"

struct settings_key set_misc_key;

#define ARGS_MAX 2 /* of a function */

/* A directive that computes a value. */
struct set_step {
    struct rewrite_step step;
    const struct value_function *function;
    struct variable *variable;
    struct template *args[ARGS_MAX];
    unsigned count; /* number of args */
};

static enum handler_result run_set(struct request *request, const struct rewrite_step *step)
{
    const struct set_step *set = container_of(step, struct set_step, step);
    struct str args[ARGS_MAX];
    struct str value;

    for (unsigned i = 0; i < set->count; i++) {
        args[i] = template_text(set->args[i], &request->env);
    }
    if (!set->function->compute(request, args, set->count, &value)) {
        return request_fail(request, 500);
    }
    variable_assign(&request->env, set->variable, value);
    return HANDLER_NEXT;
}

/* ---- set_rotate ---- */

struct rotate_step {
    struct rewrite_step step;
    struct variable *variable;
    struct template *range[2];
    uint64_t *next; /* the next value; per worker */
    bool *has_next;
};

static enum handler_result run_rotate(struct request *request, const struct rewrite_step *step)
{
    const struct rotate_step *rotate = container_of(step, struct rotate_step, step);
    const struct str texts[] = {template_text(rotate->range[0], &request->env),
                                template_text(rotate->range[1], &request->env)};
    uint64_t range[2];
    char digits[20];

    if (!set_misc_range(request, "set_rotate", texts, range)) {
        return request_fail(request, 500);
    }
    /* If the variable is a number (from a cookie, for example), the next one is based on that; else
     * on the worker's counter. */
    struct str former = STR_NONE;
    uint64_t value;
    if (variable_get(&request->env, rotate->variable, &former) && parse_uint(former, &value)) {
        value++;
    } else {
        value = *rotate->has_next ? *rotate->next : range[0];
    }
    if (value < range[0] || value > range[1]) {
        value = range[0];
    }
    *rotate->next = value + 1;
    *rotate->has_next = true;
    variable_assign(&request->env, rotate->variable,
                    arena_dup(&request->arena, str_from(digits, format_uint(digits, value))));
    return HANDLER_NEXT;
}

/* ---- set_hashed_upstream ---- */

struct upstream_list {
    struct str name;
    struct vec members; /* struct str */
};

struct hashed_step {
    struct rewrite_step step;
    struct variable *variable;
    struct template *list;
    struct vec lists; /* struct upstream_list *: those that exist before this directive */
    struct template *text;
};

static const struct upstream_list *list_named(const struct vec *lists, struct str name)
{
    vec_each(struct upstream_list *, list, lists) {
        if (str_equal((*list)->name, name)) {
            return *list;
        }
    }
    return NULL;
}

static enum handler_result run_hashed(struct request *request, const struct rewrite_step *step)
{
    const struct hashed_step *hashed = container_of(step, struct hashed_step, step);
    struct str name = template_text(hashed->list, &request->env);
    const struct upstream_list *list = list_named(&hashed->lists, name);
    struct str text = template_text(hashed->text, &request->env);

    if (list == NULL) {
        log_error(&request->log, 0, "set_hashed_upstream: upstream_list \"%.*s\" not found.",
                  STR_ARG(name));
        return request_fail(request, 500);
    }
    const struct vec *members = &list->members;

    variable_assign(&request->env, hashed->variable,
                    *vec_at(members, struct str, murmur2_of(text) % members->count));
    return HANDLER_NEXT;
}

/* ---- while the configuration is read ---- */

/* The upstream_list directives of this configuration: struct upstream_list *. */
static struct vec *lists_of(struct conf *conf)
{
    return conf_state(conf, "upstream_list", sizeof(struct vec));
}

static const struct upstream_list *find_list(struct conf *conf, struct str name)
{
    return list_named(lists_of(conf), name);
}

static bool list_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;

    if (find_list(conf, node->args[1]) != NULL) {
        return conf_error(conf, node, "upstream_list \"%.*s\" already exists",
                          STR_ARG(node->args[1]));
    }
    struct upstream_list *list = arena_new(conf->arena, struct upstream_list);
    *vec_add(lists_of(conf), conf->arena, struct upstream_list *) = list;
    list->name = node->args[1];
    for (unsigned i = 2; i < node->count; i++) {
        *vec_add(&list->members, conf->arena, struct str) = node->args[i];
    }
    return true;
}

/* Looks up the variable of the first argument; NULL after conf_error. */
static struct variable *first_variable(struct conf_scope *scope, const struct conf_node *node)
{
    const struct http_hooks *hooks = http_main_of(scope->conf)->hooks;

    if (hooks->assigned == NULL) {
        conf_error(scope->conf, node, "\"%.*s\" needs the rewrite module", STR_ARG(node->args[0]));
        return NULL;
    }
    return hooks->assigned(scope, node, node->args[1]);
}

static void add_step(struct conf_scope *scope, const struct rewrite_step *step)
{
    if (scope->context == IN_HTTP) {
        return; /* as in OpenResty, the variable is set there, and the directive is not inherited */
    }
    http_main_of(scope->conf)->hooks->add_step(scope, step);
}

/* A function gets the arguments after the variable; if there is one too few, the variable itself is
 * the first. */
static bool set_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    struct set_step *set = arena_new(scope->conf->arena, struct set_step);

    set->step.run = run_set;
    set->function = value_function_find(http_main_of(scope->conf)->hooks, node->args[0]);
    set->variable = first_variable(scope, node);
    if (set->variable == NULL) {
        return false;
    }
    unsigned from = node->count - 2 < set->function->least ? 1 : 2;
    for (unsigned i = from; i < node->count; i++) {
        if (!conf_value_template(scope, node, i, &set->args[set->count++])) {
            return false;
        }
    }
    add_step(scope, &set->step);
    return true;
}

static bool rotate_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct rotate_step *rotate = arena_new(scope->conf->arena, struct rotate_step);

    rotate->step.run = run_rotate;
    rotate->variable = first_variable(scope, node);
    rotate->next = arena_new(scope->conf->arena, uint64_t);
    rotate->has_next = arena_new(scope->conf->arena, bool);
    if (rotate->variable == NULL || !conf_value_template(scope, node, 2, &rotate->range[0]) ||
        !conf_value_template(scope, node, 3, &rotate->range[1])) {
        return false;
    }
    add_step(scope, &rotate->step);
    return true;
}

static bool hashed_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct hashed_step *hashed = arena_new(scope->conf->arena, struct hashed_step);

    hashed->step.run = run_hashed;
    hashed->variable = first_variable(scope, node);
    hashed->lists = *lists_of(scope->conf);
    if (!conf_value_template(scope, node, 2, &hashed->list)) {
        return false;
    }
    if (hashed->list->is_constant && find_list(scope->conf, node->args[2]) == NULL) {
        return conf_error(scope->conf, node,
                          "set_hashed_upstream: upstream_list \"%.*s\" not found.",
                          STR_ARG(node->args[2]));
    }
    if (hashed->variable == NULL || !conf_value_template(scope, node, 3, &hashed->text)) {
        return false;
    }
    add_step(scope, &hashed->step);
    return true;
}

static bool alphabet_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    return base32_is_alphabet(node->args[1]) ||
           conf_error(scope->conf, node, "\"%s\" directive takes 32 different characters",
                      row->name);
}

#define HERE IN_HTTP | IN_SERVER | IN_SERVER_IF | IN_LOCATION | IN_LOCATION_IF
#define IN_PLACE(name, text)                                                                       \
    {                                                                                              \
        name, HERE, CUSTOM(set_apply), ARGS(1, 2), .repeat = REPEAT_CUSTOM,                        \
                                                   .syntax = "$variable [value]", .doc = text      \
    }
#define SET(name, number, words, text)                                                             \
    {                                                                                              \
        name, HERE, CUSTOM(set_apply), ARGS(number, number), .repeat = REPEAT_CUSTOM,              \
                                                             .syntax = words, .doc = text          \
    }
#define S struct set_misc_settings
static const struct directive set_misc_rows[] = {
    SET("set_if_empty", 2, "$variable value", "Assigns a value to a variable that is empty."),
    IN_PLACE("set_quote_sql_str",
             "Assigns the value, or the variable's current one, quoted as a MySQL literal."),
    IN_PLACE("set_quote_pgsql_str",
             "Assigns the value, or the variable's current one, quoted as a PostgreSQL "
             "literal, E'...'."),
    IN_PLACE("set_quote_json_str",
             "Assigns the value, or the variable's current one, quoted as a JSON string; "
             "null if it is empty."),
    IN_PLACE("set_escape_uri",
             "Assigns the value, or the variable's current one, percent-encoded except for "
             "unreserved characters."),
    IN_PLACE("set_unescape_uri",
             "Assigns the value, or the variable's current one, percent-decoded, with `+` "
             "as a space."),
    IN_PLACE("set_encode_base64",
             "Assigns the value, or the variable's current one, encoded in base64."),
    IN_PLACE("set_encode_base64url",
             "Assigns the value, or the variable's current one, encoded in base64url "
             "without padding."),
    IN_PLACE("set_decode_base64",
             "Assigns the value, or the variable's current one, decoded from base64; an "
             "empty value if it is invalid."),
    IN_PLACE("set_decode_base64url",
             "Assigns the value, or the variable's current one, decoded from base64url; an "
             "empty value if it is invalid."),
    IN_PLACE("set_encode_base32",
             "Assigns the value, or the variable's current one, encoded in base32."),
    IN_PLACE("set_decode_base32",
             "Assigns the value, or the variable's current one, decoded from base32; an "
             "empty value if it is invalid."),
    IN_PLACE("set_encode_hex", "Assigns the value, or the variable's current one, in hexadecimal."),
    IN_PLACE("set_decode_hex",
             "Assigns the value, or the variable's current one, decoded from hexadecimal; "
             "an empty value if it is invalid."),
    IN_PLACE("set_md5", "Assigns the MD5 of the value, or of the variable's current one, in "
                        "hexadecimal."),
    IN_PLACE("set_sha1", "Assigns the SHA-1 of the value, or of the variable's current one, in "
                         "hexadecimal."),
    SET("set_hmac_sha1", 3, "$variable key text",
        "Assigns the HMAC-SHA-1 of a text with a key, 20 bytes."),
    SET("set_hmac_sha256", 3, "$variable key text",
        "Assigns the HMAC-SHA-256 of a text with a key, 32 bytes."),
    SET("set_random", 3, "$variable from to",
        "Assigns a random number between two numbers, inclusive."),
    SET("set_secure_random_alphanum", 2, "$variable length",
        "Assigns a string of random letters and digits with this length, at most 64."),
    SET("set_secure_random_lcalpha", 2, "$variable length",
        "Assigns a string of random lower-case letters with this length, at most 64."),
    {"set_rotate", HERE, CUSTOM(rotate_apply), ARGS(3, 3), .repeat = REPEAT_CUSTOM,
     .syntax = "$variable from to",
     .doc = "Assigns the numbers in a range one after the other, beginning again after the "
            "last; each worker has its own counter."},
    SET("set_local_today", 1, "$variable",
        "Assigns the current date in local time, such as 2026-11-23."),
    SET("set_formatted_local_time", 2, "$variable format",
        "Assigns the current local time, formatted as by strftime(3)."),
    SET("set_formatted_gmt_time", 2, "$variable format",
        "Assigns the current time in UTC, formatted as by strftime(3)."),
    {"set_hashed_upstream", HERE, CUSTOM(hashed_apply), ARGS(3, 3), .repeat = REPEAT_CUSTOM,
     .syntax = "$variable list value",
     .doc = "Assigns a member of an upstream_list, selected by a hash of the value."},
    {"upstream_list", IN_HTTP | IN_SERVER, CUSTOM(list_apply), ARGS(2, ARGS_ANY),
     .repeat = REPEAT_CUSTOM, .syntax = "name upstream ...",
     .doc = "List of upstreams for set_hashed_upstream; it must be defined before its use."},
    {"set_base32_padding", IN_HTTP_ALL | IN_LOCATION_IF | IN_SERVER_IF, FLAG(S, has_padding),
     .initial = "on",
     .doc = "Whether base32 output is padded with `=` to a multiple of eight characters."},
    {"set_misc_base32_padding", IN_HTTP_ALL | IN_LOCATION_IF | IN_SERVER_IF, FLAG(S, has_padding),
     .initial = "on", .doc = "Old name of set_base32_padding."},
    {"set_base32_alphabet", IN_HTTP_ALL | IN_LOCATION_IF | IN_SERVER_IF, STRING(S, alphabet),
     .apply = alphabet_apply, .initial = "0123456789abcdefghijklmnopqrstuv",
     .doc = "Alphabet of base32, 32 characters."},
    {0},
};
#undef S

static const struct http_module set_misc_hooks = {.functions = set_misc_functions};

const struct module ngx_http_set_misc_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_set_misc_module",
    .kind = MODULE_HTTP,
    .table = {.key = &set_misc_key,
              .rows = set_misc_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS | IN_SERVER_IF,
              .size = sizeof(struct set_misc_settings)},
    .hooks = &set_misc_hooks,
};
